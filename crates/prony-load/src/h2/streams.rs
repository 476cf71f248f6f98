//! The calls in flight on one connection, found by stream.
//!
//! Invariant: the places and their memory are as many as the most calls at once were, and are used again.

use crate::protocol::Captured;

/// A call in flight.
#[derive(Debug, Default)]
pub struct Stream {
    /// The loop's number.
    pub call: u32,
    /// The status of the answer; 0 before its head came.
    pub status: u16,
    /// Whether it answers a HEAD request.
    pub head: bool,
    /// How long the body is, if the head says so.
    pub length: Option<u64>,
    /// How much of the body came.
    pub received: u64,
    /// How much of what came is not yet allowed again by a window update.
    pub uncredited: u32,
    /// How much of the request's body may be sent.
    pub window: i64,
    /// The part of the request's body that waits for a window, and how much of it was sent since.
    pub unsent: Vec<u8>,
    /// See `unsent`.
    pub unsent_from: usize,
    /// Where the answer is kept.
    pub captured: Option<Box<Captured>>,
}

impl Stream {
    /// Whether the answer has the body that its head promised (RFC 9113, 8.1.1).
    #[inline]
    pub fn is_whole(&self) -> bool {
        if self.head || self.status == 204 || self.status == 304 {
            return self.received == 0;
        }
        self.length.is_none_or(|length| length == self.received)
    }

    /// Whether a part of the request's body waits.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }
}

/// The calls of a connection.
#[derive(Debug)]
pub struct Streams {
    depth: usize,
    /// The stream of each place; 0: the place is free.
    ids: Vec<u32>,
    places: Vec<Stream>,
    free: Vec<u32>,
    /// By stream number, modulo their count: the place that the stream was given. Another may have been written over
    /// it; then all places are looked through.
    hints: Vec<u32>,
}

impl Streams {
    /// None in flight. Allocates nothing.
    pub fn new(depth: u32) -> Self {
        Self { depth: depth as usize, ids: Vec::new(), places: Vec::new(), free: Vec::new(), hints: Vec::new() }
    }

    /// How many are in flight.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.ids.len() - self.free.len()
    }

    /// A place for a new stream, as good as new.
    #[inline]
    pub fn open(&mut self, id: u32) -> usize {
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None => self.grow(),
        };
        self.ids[place] = id;
        let hint = self.hint(id);
        self.hints[hint] = place as u32;
        place
    }

    /// The place of a stream in flight.
    #[inline]
    pub fn find(&self, id: u32) -> Option<usize> {
        let hint = *self.hints.get(self.hint(id))? as usize;
        if self.ids[hint] == id { Some(hint) } else { self.ids.iter().position(|own| *own == id) }
    }

    /// The place of a call in flight.
    pub fn find_call(&self, call: u32) -> Option<usize> {
        (0..self.ids.len()).find(|place| self.ids[*place] != 0 && self.places[*place].call == call)
    }

    /// Frees a place. Its buffer of unsent bytes is kept for the next call.
    #[inline]
    pub fn close(&mut self, place: usize) {
        self.ids[place] = 0;
        let mut unsent = std::mem::take(&mut self.places[place].unsent);
        unsent.clear();
        self.places[place] = Stream { unsent, ..Stream::default() };
        self.free.push(place as u32);
    }

    /// The stream of a place; 0: it is free.
    #[inline]
    pub fn id(&self, place: usize) -> u32 {
        self.ids[place]
    }

    /// The call of a place.
    #[inline]
    pub fn at(&mut self, place: usize) -> &mut Stream {
        &mut self.places[place]
    }

    /// All places, free ones too.
    pub fn places(&self) -> std::ops::Range<usize> {
        0..self.ids.len()
    }

    /// Memory of all places, bodies that wait included.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        let unsent: usize = self.places.iter().map(|stream| stream.unsent.capacity()).sum();
        let numbers = self.ids.capacity() + self.free.capacity() + self.hints.capacity();
        unsent + numbers * size_of::<u32>() + self.places.capacity() * size_of::<Stream>()
    }

    /// Streams are numbered 1, 3, 5, ...
    #[inline]
    fn hint(&self, id: u32) -> usize {
        (id >> 1) as usize & self.hints.len().wrapping_sub(1)
    }

    fn grow(&mut self) -> usize {
        if self.ids.is_empty() {
            for list in [&mut self.ids, &mut self.free] {
                list.reserve_exact(self.depth);
            }
            self.places.reserve_exact(self.depth);
            // Twice the depth: a stream may live as long as as many others come and go.
            self.hints = vec![0; (2 * self.depth).next_power_of_two()];
        }
        self.ids.push(0);
        self.places.push(Stream::default());
        self.ids.len() - 1
    }
}
