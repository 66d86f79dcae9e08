//! Files that are written while a system runs.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::error::Error;

/// Where a log goes. A session can be looked at from several threads, so it can be sent.
pub(crate) type Output = Box<dyn Write + Send + Sync>;

/// Creates the file at `path`, compressed with gzip if its name ends in `.gz`; `what` it is, for
/// messages.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn create(path: &str, what: &str) -> Result<Output, Error> {
    let file = File::create(path)
        .map_err(|error| Error::User(format!("{path}: cannot write {what}: {error}")))?;
    Ok(if path.ends_with(".gz") {
        // Lines repeat themselves: more effort gains little.
        let gzip = Gzip(Some(GzEncoder::new(file, Compression::fast())));
        Box::new(BufWriter::new(gzip))
    } else {
        Box::new(BufWriter::new(file))
    })
}

/// Removes the file at `path`, of which a part is missing, and says so.
pub(crate) fn not_whole(path: &str, what: &str, error: &io::Error) -> String {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let gone = match is_file && std::fs::remove_file(path).is_ok() {
        true => "; what there was of it is removed",
        false => "",
    };
    format!("{path}: {what} is not whole: {error}{gone}")
}

/// A compressed file whose end is written when it is flushed, so that this can fail; nothing may come
/// after.
struct Gzip(Option<GzEncoder<File>>);

impl Write for Gzip {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(encoder) => encoder.write(bytes),
            None => Err(io::Error::other("the file is closed")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.take() {
            Some(encoder) => encoder.finish().map(drop),
            None => Ok(()),
        }
    }
}
