//! virtio devices and their transport, memory-mapped registers of version 2.
//!
//! A device is a file here that implements [`Function`]: what it is, and what it does with a request.
//! Everything that devices have in common is done here: registers, feature negotiation, queues. A
//! request is served when the driver notifies the queue, in no simulated time. Source: "Virtual I/O
//! Device (VIRTIO) Version 1.2", sections 2 and 4.2.

mod block;
mod console;
mod dma;
#[cfg(test)]
pub(crate) mod driver;
mod entropy;
mod net;
mod request;
mod state;

use loiter_isa::Width;
use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET,
    VIRTIO_F_VERSION_1,
};
use virtio_bindings::virtio_mmio::{
    VIRTIO_MMIO_CONFIG, VIRTIO_MMIO_CONFIG_GENERATION, VIRTIO_MMIO_DEVICE_FEATURES,
    VIRTIO_MMIO_DEVICE_FEATURES_SEL, VIRTIO_MMIO_DEVICE_ID, VIRTIO_MMIO_DRIVER_FEATURES,
    VIRTIO_MMIO_DRIVER_FEATURES_SEL, VIRTIO_MMIO_INT_CONFIG, VIRTIO_MMIO_INT_VRING,
    VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INTERRUPT_STATUS, VIRTIO_MMIO_MAGIC_VALUE,
    VIRTIO_MMIO_QUEUE_AVAIL_HIGH, VIRTIO_MMIO_QUEUE_AVAIL_LOW, VIRTIO_MMIO_QUEUE_DESC_HIGH,
    VIRTIO_MMIO_QUEUE_DESC_LOW, VIRTIO_MMIO_QUEUE_NOTIFY, VIRTIO_MMIO_QUEUE_NUM,
    VIRTIO_MMIO_QUEUE_NUM_MAX, VIRTIO_MMIO_QUEUE_READY, VIRTIO_MMIO_QUEUE_SEL,
    VIRTIO_MMIO_QUEUE_USED_HIGH, VIRTIO_MMIO_QUEUE_USED_LOW, VIRTIO_MMIO_SHM_BASE_HIGH,
    VIRTIO_MMIO_SHM_LEN_LOW, VIRTIO_MMIO_STATUS, VIRTIO_MMIO_VENDOR_ID, VIRTIO_MMIO_VERSION,
};
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use virtio_queue::{Queue, QueueT};
use vm_fdt::FdtWriter;

use super::{Device, Surroundings};
pub(crate) use block::Block;
pub(crate) use console::Console;
pub(crate) use dma::Dma;
pub(crate) use entropy::Entropy;
pub(crate) use net::Net;
pub use net::Network;
use request::{Broken, Request, serve};
pub(crate) use state::SavedVirtio;

/// "virt"
const MAGIC: u32 = 0x7472_6976;
const VERSION: u32 = 2;
/// "loit"
const VENDOR: u32 = 0x7469_6f6c;
/// Requests that a queue has room for.
const QUEUE_SIZE: u16 = 256;
/// What reading the length of a shared memory region returns when there is none.
const NO_REGION: u32 = u32::MAX;

/// What makes a device the device it is.
pub(crate) trait Function {
    /// Number of the kind of device.
    fn id(&self) -> u32;

    /// How messages name it.
    fn name(&self) -> String;

    /// Feature bits but those of the transport.
    fn features(&self) -> u64 {
        0
    }

    /// Number of queues.
    fn queues(&self) -> usize;

    /// The configuration space. The driver cannot write to it.
    fn config(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Whether there is something to do with a request of this queue. A queue by which the device
    /// receives has requests that wait for that.
    fn wants(&self, _queue: usize) -> bool {
        true
    }

    /// Does what a request asks for and says how many bytes it wrote.
    fn handle(&mut self, queue: usize, request: Request) -> Result<u32, Broken>;

    /// What happened that the user should hear of.
    fn take_message(&mut self) -> Option<String> {
        None
    }
}

/// The devices that there are.
pub(crate) enum Kind {
    Block(Block),
    Console(Console),
    Net(Net),
    Entropy(Entropy),
}

impl Kind {
    fn get(&self) -> &dyn Function {
        match self {
            Self::Block(block) => block,
            Self::Console(console) => console,
            Self::Net(net) => net,
            Self::Entropy(entropy) => entropy,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Function {
        match self {
            Self::Block(block) => block,
            Self::Console(console) => console,
            Self::Net(net) => net,
            Self::Entropy(entropy) => entropy,
        }
    }
}

/// A device behind its registers.
pub(crate) struct Virtio {
    pub(crate) kind: Kind,
    queues: Vec<Queue>,
    device_features_page: u32,
    driver_features_page: u32,
    driver_features: u64,
    selected_queue: u32,
    status: u32,
    interrupts: u32,
    /// A bit for each queue that was notified and is not yet served.
    notified: u32,
    /// What the user is to hear of a broken ring.
    message: Option<String>,
}

impl Virtio {
    pub(crate) fn new(kind: Kind) -> Self {
        let queues = (0..kind.get().queues())
            .map(|_| Queue::new(QUEUE_SIZE).expect("a power of two"))
            .collect();
        Self {
            kind,
            queues,
            device_features_page: 0,
            driver_features_page: 0,
            driver_features: 0,
            selected_queue: 0,
            status: 0,
            interrupts: 0,
            notified: 0,
            message: None,
        }
    }

    /// The level of the interrupt line.
    pub(crate) fn interrupt(&self) -> bool {
        self.interrupts != 0
    }

    /// What happened that the user should hear of.
    pub(crate) fn take_message(&mut self) -> Option<String> {
        let message = self.message.take();
        message.or_else(|| self.kind.get_mut().take_message())
    }

    /// Serves the queues that were notified, and those by which the device has something to say.
    pub(crate) fn serve(&mut self, dma: &Dma) {
        let notified = std::mem::take(&mut self.notified);
        // The queues by which devices receive come first, but what they receive may be the answer
        // to what was sent.
        for index in (0..self.queues.len()).rev() {
            let has_news = index == 0 && self.queues.len() > 1 && self.kind.get().wants(index);
            if self.is_running() && (notified >> index & 1 != 0 || has_news) {
                self.serve_queue(index, dma);
            }
        }
    }

    fn serve_queue(&mut self, index: usize, dma: &Dma) {
        let queue = &mut self.queues[index];
        if !queue.ready() {
            return;
        }
        match serve(self.kind.get_mut(), index, queue, dma) {
            Ok(true) => self.interrupts |= VIRTIO_MMIO_INT_VRING,
            Ok(false) => {}
            Err(broken) => self.ask_for_reset(index, &broken),
        }
    }

    fn is_running(&self) -> bool {
        self.status & (VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_NEEDS_RESET)
            == VIRTIO_CONFIG_S_DRIVER_OK
    }

    fn ask_for_reset(&mut self, queue: usize, broken: &Broken) {
        if self.status & VIRTIO_CONFIG_S_NEEDS_RESET == 0 {
            self.message = Some(format!(
                "{}: the driver gave queue {queue} {broken}; the device does nothing until it is reset",
                self.kind.get().name()
            ));
        }
        self.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            self.interrupts |= VIRTIO_MMIO_INT_CONFIG;
        }
    }

    fn features(&self) -> u64 {
        self.kind.get().features() | 1 << VIRTIO_F_VERSION_1 | 1 << VIRTIO_RING_F_EVENT_IDX
    }

    fn reset(&mut self) {
        self.queues.iter_mut().for_each(Queue::reset);
        self.device_features_page = 0;
        self.driver_features_page = 0;
        self.driver_features = 0;
        self.selected_queue = 0;
        self.status = 0;
        self.interrupts = 0;
        self.notified = 0;
    }

    fn set_status(&mut self, status: u32) {
        if status == 0 {
            self.reset();
            return;
        }
        let mut new = status & !VIRTIO_CONFIG_S_NEEDS_RESET;
        let agreed = self.driver_features & !self.features() == 0
            && self.driver_features >> VIRTIO_F_VERSION_1 & 1 != 0;
        if !agreed {
            new &= !VIRTIO_CONFIG_S_FEATURES_OK;
        }
        // Only a reset takes bits back.
        self.status |= new;
        let event_idx = self.driver_features >> VIRTIO_RING_F_EVENT_IDX & 1 != 0;
        for queue in &mut self.queues {
            queue.set_event_idx(event_idx);
        }
    }

    fn queue(&self) -> Option<&Queue> {
        self.queues.get(self.selected_queue as usize)
    }

    fn load_register(&self, register: u32) -> u32 {
        match register {
            VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            VIRTIO_MMIO_VERSION => VERSION,
            VIRTIO_MMIO_DEVICE_ID => self.kind.get().id(),
            VIRTIO_MMIO_VENDOR_ID => VENDOR,
            VIRTIO_MMIO_DEVICE_FEATURES => half(self.features(), self.device_features_page),
            VIRTIO_MMIO_QUEUE_NUM_MAX => self.queue().map_or(0, |queue| queue.max_size().into()),
            VIRTIO_MMIO_QUEUE_READY => self.queue().map_or(0, |queue| queue.ready().into()),
            VIRTIO_MMIO_INTERRUPT_STATUS => self.interrupts,
            VIRTIO_MMIO_STATUS => self.status,
            VIRTIO_MMIO_SHM_LEN_LOW..=VIRTIO_MMIO_SHM_BASE_HIGH => NO_REGION,
            // The configuration space never changes while a driver runs.
            VIRTIO_MMIO_CONFIG_GENERATION => 0,
            _ => 0,
        }
    }

    fn store_register(&mut self, register: u32, value: u32) {
        match register {
            VIRTIO_MMIO_DEVICE_FEATURES_SEL => self.device_features_page = value,
            VIRTIO_MMIO_DRIVER_FEATURES_SEL => self.driver_features_page = value,
            VIRTIO_MMIO_DRIVER_FEATURES => self.set_driver_features(value),
            VIRTIO_MMIO_QUEUE_SEL => self.selected_queue = value,
            VIRTIO_MMIO_QUEUE_NOTIFY => {
                if self.is_running() && (value as usize) < self.queues.len() {
                    self.notified |= 1 << value;
                }
            }
            VIRTIO_MMIO_INTERRUPT_ACK => self.interrupts &= !value,
            VIRTIO_MMIO_STATUS => self.set_status(value),
            _ => self.set_up_queue(register, value),
        }
    }

    fn set_driver_features(&mut self, value: u32) {
        // They are fixed once agreed on.
        if self.status & VIRTIO_CONFIG_S_FEATURES_OK != 0 {
            return;
        }
        let shift = match self.driver_features_page {
            0 => 0,
            1 => 32,
            _ => return,
        };
        self.driver_features &= !(u64::from(u32::MAX) << shift);
        self.driver_features |= u64::from(value) << shift;
    }

    fn set_up_queue(&mut self, register: u32, value: u32) {
        let index = self.selected_queue as usize;
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        if register == VIRTIO_MMIO_QUEUE_READY {
            queue.set_ready(value & 1 != 0);
            return;
        }
        // A queue that is in use stays as it is.
        if queue.ready() {
            return;
        }
        let (low, high) = (Some(value), None);
        let taken = match register {
            VIRTIO_MMIO_QUEUE_NUM => {
                let size = u16::try_from(value).unwrap_or(0);
                queue.try_set_size(size).is_ok()
            }
            VIRTIO_MMIO_QUEUE_DESC_LOW => {
                queue.set_desc_table_address(low, high);
                queue.desc_table() as u32 == value
            }
            VIRTIO_MMIO_QUEUE_AVAIL_LOW => {
                queue.set_avail_ring_address(low, high);
                queue.avail_ring() as u32 == value
            }
            VIRTIO_MMIO_QUEUE_USED_LOW => {
                queue.set_used_ring_address(low, high);
                queue.used_ring() as u32 == value
            }
            VIRTIO_MMIO_QUEUE_DESC_HIGH => {
                queue.set_desc_table_address(high, low);
                true
            }
            VIRTIO_MMIO_QUEUE_AVAIL_HIGH => {
                queue.set_avail_ring_address(high, low);
                true
            }
            VIRTIO_MMIO_QUEUE_USED_HIGH => {
                queue.set_used_ring_address(high, low);
                true
            }
            _ => true,
        };
        if !taken {
            self.ask_for_reset(index, &Broken::Setup);
        }
    }
}

/// The half of 64 feature bits that a page number selects.
fn half(features: u64, page: u32) -> u32 {
    match page {
        0 => features as u32,
        1 => (features >> 32) as u32,
        _ => 0,
    }
}

impl Device for Virtio {
    fn load(&mut self, offset: u64, width: Width) -> Option<u64> {
        if let Some(offset) = offset.checked_sub(u64::from(VIRTIO_MMIO_CONFIG)) {
            let config = self.kind.get().config();
            let byte = |n| config.get((offset + n) as usize).copied().unwrap_or(0);
            let value = (0..width.bytes()).map(|n| u64::from(byte(n)) << (8 * n));
            return Some(value.sum());
        }
        (width == Width::W).then(|| u64::from(self.load_register(offset as u32)))
    }

    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()> {
        if offset >= u64::from(VIRTIO_MMIO_CONFIG) {
            return Some(());
        }
        (width == Width::W).then(|| self.store_register(offset as u32, value as u32))
    }

    fn describe(&self, tree: &mut FdtWriter, around: &Surroundings) -> Result<(), vm_fdt::Error> {
        let node = tree.begin_node(&around.node("virtio_mmio"))?;
        tree.property_string("compatible", "virtio,mmio")?;
        tree.property_array_u64("reg", &around.reg())?;
        around.interrupt(tree)?;
        tree.end_node(node)
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod block_tests;
#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile_tests;
#[cfg(test)]
#[path = "net_tests.rs"]
mod net_tests;
#[cfg(test)]
#[path = "virtio_tests.rs"]
mod tests;
