//! Floating point at the corners.
