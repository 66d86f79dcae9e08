"""Methods of measurement that papers share."""
