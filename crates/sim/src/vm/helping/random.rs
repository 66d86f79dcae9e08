//! Anybody of the guest: what a choice has to be better than.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Call, Help, Policy};

#[derive(Serialize, Deserialize)]
pub(super) struct Random {
    generator: ChaCha20Rng,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            generator: ChaCha20Rng::seed_from_u64(seed),
        }
    }
}

impl Policy for Random {
    fn save(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn restore(&mut self, saved: Value) -> serde_json::Result<()> {
        *self = serde_json::from_value(saved)?;
        Ok(())
    }

    fn choose(&mut self, call: Call<'_>) -> Help {
        if call.candidates.is_empty() {
            return Help::Next;
        }
        // The remainder favours none of a few hundred by more than one in 2^55.
        let at = self.generator.next_u64() % call.candidates.len() as u64;
        Help::This(call.candidates[at as usize].vcpu)
    }
}
