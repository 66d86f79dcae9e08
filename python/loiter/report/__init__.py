"""What a study leaves for people: terminal tables, pictures, one HTML page, and files for other programs."""
