//! A console with one port: what the guest sees as `hvc`.

use std::collections::VecDeque;
use std::io::{Read, Write};

use virtio_bindings::virtio_ids::VIRTIO_ID_CONSOLE;

use super::Function;
use super::request::{Broken, Request};

const RECEIVE: usize = 0;
const QUEUES: usize = 2;

pub(crate) struct Console {
    /// Number of the port: the serial console is 0, this one 1 or more.
    port: usize,
    /// Typed, and not yet taken by the guest.
    pub(crate) input: VecDeque<u8>,
    /// Written by the guest, and not yet taken by the user.
    pub(crate) output: Vec<u8>,
}

impl Console {
    pub(crate) fn new(port: usize) -> Self {
        Self {
            port,
            input: VecDeque::new(),
            output: Vec::new(),
        }
    }

    fn receive(&mut self, mut request: Request) -> Result<u32, Broken> {
        let bytes = request.writer.available_bytes().min(self.input.len());
        if bytes == 0 {
            return Err(Broken::Short);
        }
        let typed: Vec<u8> = self.input.drain(..bytes).collect();
        request.writer.write_all(&typed).expect("there is room");
        Ok(bytes as u32)
    }

    fn send(&mut self, mut request: Request) -> Result<u32, Broken> {
        let read = request.reader.read_to_end(&mut self.output);
        read.map_err(|_| Broken::Address)?;
        Ok(0)
    }
}

impl Function for Console {
    fn id(&self) -> u32 {
        VIRTIO_ID_CONSOLE
    }

    fn name(&self) -> String {
        format!("virtio console hvc{}", self.port - 1)
    }

    fn queues(&self) -> usize {
        QUEUES
    }

    fn wants(&self, queue: usize) -> bool {
        queue != RECEIVE || !self.input.is_empty()
    }

    fn handle(&mut self, queue: usize, request: Request) -> Result<u32, Broken> {
        match queue {
            RECEIVE => self.receive(request),
            _ => self.send(request),
        }
    }
}
