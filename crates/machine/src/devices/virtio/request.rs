//! Requests of a driver: descriptor chains that are known to be well-formed.
//!
//! Nothing that a guest writes into a ring may make us panic, loop or take memory without bound. A
//! chain that is not as the specification wants it is an error, from which the device asks to be
//! reset ("Virtual I/O Device (VIRTIO) Version 1.2", 2.1.2 and 2.7).

use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT, Reader, Writer};

use super::Function;
use super::dma::Dma;

/// Longest chain in bytes; far more than Linux sends to any device that we have.
pub(crate) const MAX_REQUEST_BYTES: u64 = 16 << 20;
/// Most descriptors of a chain; a queue has fewer, an indirect table could have more.
const MAX_DESCRIPTORS: usize = 1024;

/// What is wrong with a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("a ring lies outside RAM or its index is out of range")]
    Ring,
    #[error("a queue of an invalid size or at an invalid address")]
    Setup,
    #[error("a descriptor chain that does not end")]
    Chain,
    #[error("a descriptor to be read after one to be written")]
    Order,
    #[error("a descriptor chain of more than {MAX_REQUEST_BYTES} bytes or too many parts")]
    Size,
    #[error("a buffer outside RAM")]
    Address,
    #[error("a request that is too short")]
    Short,
}

/// One request: what the driver has written, and where it wants the answer.
pub(crate) struct Request<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) writer: Writer<'a>,
    /// Index of the chain's first descriptor.
    head: u16,
}

impl<'a> Request<'a> {
    fn new(chain: DescriptorChain<&'a Dma>, dma: &'a Dma) -> Result<Self, Broken> {
        check(chain.clone())?;
        Ok(Self {
            head: chain.head_index(),
            reader: Reader::new(dma, chain.clone()).map_err(|_| Broken::Address)?,
            writer: Writer::new(dma, chain).map_err(|_| Broken::Address)?,
        })
    }
}

/// The iterator of a chain ends the same way whether the chain does or is broken; what tells is
/// whether the last descriptor names a next one.
fn check(chain: DescriptorChain<&Dma>) -> Result<(), Broken> {
    let (mut bytes, mut written, mut open) = (0, false, true);
    for (count, descriptor) in chain.enumerate() {
        if written && !descriptor.is_write_only() {
            return Err(Broken::Order);
        }
        written = descriptor.is_write_only();
        open = descriptor.has_next();
        bytes += u64::from(descriptor.len());
        if bytes > MAX_REQUEST_BYTES || count >= MAX_DESCRIPTORS {
            return Err(Broken::Size);
        }
    }
    if open { Err(Broken::Chain) } else { Ok(()) }
}

/// Gives a device the requests of a queue, as long as it wants them. Returns whether the driver is to
/// be interrupted.
pub(crate) fn serve(
    function: &mut dyn Function,
    index: usize,
    queue: &mut Queue,
    dma: &Dma,
) -> Result<bool, Broken> {
    if !queue.is_valid(dma) {
        return Err(Broken::Ring);
    }
    // Fixed here: a request that lets the device write into the ring itself must not add to it.
    let available = queue.avail_idx(dma, std::sync::atomic::Ordering::Acquire);
    let available = available.map_err(|_| Broken::Ring)?.0;
    let requests = available.wrapping_sub(queue.next_avail());
    let mut served = false;
    for _ in 0..requests {
        if !function.wants(index) {
            break;
        }
        let chain = queue.iter(dma).map_err(|_| Broken::Ring)?.next();
        let request = Request::new(chain.ok_or(Broken::Ring)?, dma)?;
        let head = request.head;
        let written = function.handle(index, request)?;
        queue
            .add_used(dma, head, written)
            .map_err(|_| Broken::Ring)?;
        served = true;
    }
    // Where the driver has asked for it, says from which request on it is to notify us again.
    queue.enable_notification(dma).map_err(|_| Broken::Ring)?;
    let interrupt = queue.needs_notification(dma).map_err(|_| Broken::Ring)?;
    Ok(served && interrupt)
}
