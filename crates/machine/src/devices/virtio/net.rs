//! A network card with one pair of queues and no offloads.

use std::collections::VecDeque;
use std::io::{Read, Write};

use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_bindings::virtio_net::{VIRTIO_NET_F_MAC, VIRTIO_NET_F_STATUS, VIRTIO_NET_S_LINK_UP};

use super::Function;
use super::request::{Broken, Request};
use crate::gateway;

const RECEIVE: usize = 0;
const QUEUES: usize = 2;
/// `struct virtio_net_hdr_v1`; all of it is about offloads but the number of buffers, the last field.
const HEADER_BYTES: usize = 12;
const ONE_BUFFER: [u8; 2] = 1_u16.to_le_bytes();
/// The address of the first card in QEMU.
const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
/// Longest frame: what IP can carry, and the header of Ethernet.
const MAX_FRAME_BYTES: usize = 65535 + 14;
/// As many frames wait for either side; further ones are lost, as on a cable.
const MAX_WAITING: usize = 256;

/// What is at the other end of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A gateway at 10.0.2.2 that answers ARP, ping and DHCP; the guest is 10.0.2.15.
    Gateway,
    /// Whoever takes the frames and brings others, such as another machine.
    Wire,
}

pub(crate) struct Net {
    network: Network,
    /// Frames in flight to the guest.
    pub(crate) incoming: VecDeque<Vec<u8>>,
    /// Frames of the guest that nobody has taken yet.
    pub(crate) outgoing: VecDeque<Vec<u8>>,
}

impl Net {
    pub(crate) fn new(network: Network) -> Self {
        Self {
            network,
            incoming: VecDeque::new(),
            outgoing: VecDeque::new(),
        }
    }

    /// A frame comes in.
    pub(crate) fn push(&mut self, frame: Vec<u8>) {
        wait(&mut self.incoming, frame);
    }

    fn sent(&mut self, frame: Vec<u8>) {
        match self.network {
            Network::Gateway => {
                if let Some(answer) = gateway::answer(&frame) {
                    self.push(answer);
                }
            }
            Network::Wire => wait(&mut self.outgoing, frame),
        }
    }

    fn send(&mut self, mut request: Request) -> Result<u32, Broken> {
        let mut header = [0; HEADER_BYTES];
        let read = request.reader.read_exact(&mut header);
        read.map_err(|_| Broken::Short)?;
        let bytes = request.reader.available_bytes();
        if bytes <= MAX_FRAME_BYTES {
            let mut frame = vec![0; bytes];
            let read = request.reader.read_exact(&mut frame);
            read.map_err(|_| Broken::Short)?;
            self.sent(frame);
        }
        Ok(0)
    }

    fn receive(&mut self, mut request: Request) -> Result<u32, Broken> {
        let room = request.writer.available_bytes();
        let room = room.checked_sub(HEADER_BYTES).ok_or(Broken::Short)?;
        // A frame that is too long for the buffer is lost. If it was the last, the buffer is used
        // all the same: with an empty frame, which drivers drop.
        let frame = loop {
            match self.incoming.pop_front() {
                Some(frame) if frame.len() > room => {}
                other => break other.unwrap_or_default(),
            }
        };
        let mut header = [0; HEADER_BYTES];
        header[HEADER_BYTES - ONE_BUFFER.len()..].copy_from_slice(&ONE_BUFFER);
        let written = request.writer.write_all(&header);
        written.expect("there is room");
        request.writer.write_all(&frame).expect("there is room");
        Ok(request.writer.bytes_written() as u32)
    }
}

fn wait(frames: &mut VecDeque<Vec<u8>>, frame: Vec<u8>) {
    if frames.len() < MAX_WAITING && frame.len() <= MAX_FRAME_BYTES {
        frames.push_back(frame);
    }
}

impl Function for Net {
    fn id(&self) -> u32 {
        VIRTIO_ID_NET
    }

    fn name(&self) -> String {
        "virtio network card".into()
    }

    fn features(&self) -> u64 {
        1 << VIRTIO_NET_F_MAC | 1 << VIRTIO_NET_F_STATUS
    }

    fn queues(&self) -> usize {
        QUEUES
    }

    fn config(&self) -> Vec<u8> {
        let mut config = MAC.to_vec();
        config.extend((VIRTIO_NET_S_LINK_UP as u16).to_le_bytes());
        config
    }

    fn wants(&self, queue: usize) -> bool {
        queue != RECEIVE || !self.incoming.is_empty()
    }

    fn handle(&mut self, queue: usize, request: Request) -> Result<u32, Broken> {
        match queue {
            RECEIVE => self.receive(request),
            _ => self.send(request),
        }
    }
}
