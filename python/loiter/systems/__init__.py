"""Systems that boot a kernel: what is asked of one, its console, and how it is driven."""
