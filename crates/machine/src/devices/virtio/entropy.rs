//! Random numbers that follow from the seed of the run.

use std::io::Write;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use virtio_bindings::virtio_ids::VIRTIO_ID_RNG;

use super::Function;
use super::request::{Broken, Request};

/// The generator's stream; the device tree's seed for the kernel comes from stream 0.
const STREAM: u64 = 1;
/// So many bytes are made at a time.
const PART_BYTES: usize = 4096;

pub(crate) struct Entropy {
    pub(crate) generator: ChaCha20Rng,
}

impl Entropy {
    pub(crate) fn new(seed: u64) -> Self {
        let mut generator = ChaCha20Rng::seed_from_u64(seed);
        generator.set_stream(STREAM);
        Self { generator }
    }
}

impl Function for Entropy {
    fn id(&self) -> u32 {
        VIRTIO_ID_RNG
    }

    fn name(&self) -> String {
        "virtio entropy source".into()
    }

    fn queues(&self) -> usize {
        1
    }

    fn handle(&mut self, _queue: usize, mut request: Request) -> Result<u32, Broken> {
        let mut part = [0; PART_BYTES];
        let all = request.writer.available_bytes();
        let mut left = all;
        while left > 0 {
            let bytes = left.min(PART_BYTES);
            self.generator.fill_bytes(&mut part[..bytes]);
            let written = request.writer.write_all(&part[..bytes]);
            written.expect("there is room");
            left -= bytes;
        }
        Ok(all as u32)
    }
}
