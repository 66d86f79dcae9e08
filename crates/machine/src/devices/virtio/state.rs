//! What a snapshot keeps of virtio devices.

use std::collections::{BTreeMap, VecDeque};

use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use virtio_queue::{Queue, QueueState};

use super::{Kind, QUEUE_SIZE, Virtio};

/// A device: its registers, its queues, and what it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedVirtio {
    device_features_page: u32,
    driver_features_page: u32,
    driver_features: u64,
    selected_queue: u32,
    status: u32,
    interrupts: u32,
    queues: Vec<SavedQueue>,
    kind: SavedKind,
}

/// What only this kind of device has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum SavedKind {
    Block {
        bytes: u64,
        /// By number of the block. What the guest writes to a writable disk is in its file.
        overlay: BTreeMap<u64, ByteBuf>,
    },
    Console {
        /// Typed, and not yet taken by the guest.
        input: VecDeque<u8>,
    },
    Net {
        incoming: Vec<ByteBuf>,
        outgoing: Vec<ByteBuf>,
    },
    Entropy {
        generator: Box<ChaCha20Rng>,
    },
}

/// virtio-queue's `QueueState`, which serde does not know.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedQueue {
    size: u16,
    ready: bool,
    event_idx: bool,
    next_available: u16,
    next_used: u16,
    descriptors: u64,
    available_ring: u64,
    used_ring: u64,
}

impl SavedQueue {
    fn of(queue: &Queue) -> Self {
        let state = queue.state();
        Self {
            size: state.size,
            ready: state.ready,
            event_idx: state.event_idx_enabled,
            next_available: state.next_avail,
            next_used: state.next_used,
            descriptors: state.desc_table,
            available_ring: state.avail_ring,
            used_ring: state.used_ring,
        }
    }

    fn restored(&self) -> Result<Queue, String> {
        let state = QueueState {
            max_size: QUEUE_SIZE,
            next_avail: self.next_available,
            next_used: self.next_used,
            event_idx_enabled: self.event_idx,
            size: self.size,
            ready: self.ready,
            desc_table: self.descriptors,
            avail_ring: self.available_ring,
            used_ring: self.used_ring,
        };
        Queue::try_from(state).map_err(|error| format!("a virtio queue that cannot be: {error}"))
    }
}

fn frames(frames: &VecDeque<Vec<u8>>) -> Vec<ByteBuf> {
    frames.iter().cloned().map(ByteBuf::from).collect()
}

impl Virtio {
    /// All that a snapshot needs. Nothing is in flight between two stores of the driver.
    pub(crate) fn save(&self) -> SavedVirtio {
        SavedVirtio {
            device_features_page: self.device_features_page,
            driver_features_page: self.driver_features_page,
            driver_features: self.driver_features,
            selected_queue: self.selected_queue,
            status: self.status,
            interrupts: self.interrupts,
            queues: self.queues.iter().map(SavedQueue::of).collect(),
            kind: match &self.kind {
                Kind::Block(block) => SavedKind::Block {
                    bytes: block.disk.bytes(),
                    overlay: block.disk.overlay(),
                },
                Kind::Console(console) => SavedKind::Console {
                    input: console.input.clone(),
                },
                Kind::Net(net) => SavedKind::Net {
                    incoming: frames(&net.incoming),
                    outgoing: frames(&net.outgoing),
                },
                Kind::Entropy(entropy) => SavedKind::Entropy {
                    generator: Box::new(entropy.generator.clone()),
                },
            },
        }
    }

    /// Takes over what a snapshot holds.
    pub(crate) fn restore(&mut self, saved: &SavedVirtio) -> Result<(), String> {
        let name = self.kind.get().name();
        match (&mut self.kind, &saved.kind) {
            (Kind::Block(block), SavedKind::Block { bytes, overlay }) => {
                let ours = block.disk.bytes();
                if *bytes != ours {
                    return Err(format!("{name} had {bytes} bytes and has {ours} here"));
                }
                let taken = block.disk.set_overlay(overlay);
                taken.map_err(|what| format!("{name}: {what}"))?;
            }
            (Kind::Console(console), SavedKind::Console { input }) => {
                console.input.clone_from(input);
            }
            (Kind::Net(net), SavedKind::Net { incoming, outgoing }) => {
                let frames = |saved: &[ByteBuf]| saved.iter().map(|frame| frame.to_vec()).collect();
                (net.incoming, net.outgoing) = (frames(incoming), frames(outgoing));
            }
            (Kind::Entropy(entropy), SavedKind::Entropy { generator }) => {
                entropy.generator = ChaCha20Rng::clone(generator);
            }
            _ => return Err(format!("another device where {name} is here")),
        }
        let queues: Result<Vec<Queue>, String> =
            saved.queues.iter().map(SavedQueue::restored).collect();
        let queues = queues?;
        if queues.len() != self.queues.len() {
            return Err(format!("{} queues of {name}", queues.len()));
        }
        self.queues = queues;
        self.device_features_page = saved.device_features_page;
        self.driver_features_page = saved.driver_features_page;
        self.driver_features = saved.driver_features;
        self.selected_queue = saved.selected_queue;
        self.status = saved.status;
        self.interrupts = saved.interrupts;
        self.notified = 0;
        Ok(())
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
