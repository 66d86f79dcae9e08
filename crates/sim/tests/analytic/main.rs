//! What the timing model must do to the cycle, worked out by other means: closed forms, or a second, small model written
//! from the words of the rules. No test here calls the model's own arithmetic.

mod accounts;
mod caches;
mod coherent;
mod counters;
mod crossing;
mod idle_caches;
mod in_flight;
mod in_order;
mod latency;
mod levels;
mod misses;
mod purposes;
mod selection;
mod sharing;
mod smt;
mod smt_memory;
mod stores;
mod support;
mod translation;
mod units;
mod waiting;
mod who_waits;
