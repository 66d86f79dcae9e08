//! Which file it was.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::Xxh3;

/// Samples of a large file, spread evenly, and the length of each: so many that an image that was built
/// anew or mounted differs in one, so few that a restored system does not wait for them (assumed).
const SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 4096;

/// A file that the guest has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIdentity {
    /// What it is to the guest, such as `kernel` or `vda`.
    pub role: String,
    /// Its name, without folders; empty where there is no file.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// How it was hashed, and the hash: `sha256:` of all of it or `sampled-xxh3:` of samples.
    pub hash: String,
}

impl FileIdentity {
    /// Of a file that is read whole.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn whole(role: &str, path: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let hash: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(Self {
            role: role.into(),
            name: name(path),
            bytes: bytes.len() as u64,
            hash: format!("sha256:{hash}"),
        })
    }

    /// Of a large file, of which only samples are read.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn sampled(role: &str, path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // A block device has no length of its own.
        let bytes = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
        let last = bytes.saturating_sub(SAMPLE_BYTES);
        let mut hasher = Xxh3::new();
        let mut sample = vec![0; SAMPLE_BYTES.min(bytes) as usize];
        for n in 0..SAMPLES {
            let at = u128::from(last) * u128::from(n) / u128::from(SAMPLES - 1);
            file.read_exact_at(&mut sample, at as u64)?;
            hasher.update(&sample);
        }
        Ok(Self {
            role: role.into(),
            name: name(path),
            bytes,
            hash: format!("sampled-xxh3:{:016x}", hasher.digest()),
        })
    }

    /// Of nothing but zeroes, which no file holds.
    #[must_use]
    pub fn none(role: &str) -> Self {
        Self {
            role: role.into(),
            name: String::new(),
            bytes: 0,
            hash: "none".into(),
        }
    }

    /// Whether both are the same file, wherever it lies and whatever it is called.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.role == other.role && self.bytes == other.bytes && self.hash == other.hash
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_what_they_hold() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        for length in [
            0,
            1,
            SAMPLE_BYTES - 1,
            SAMPLE_BYTES,
            SAMPLE_BYTES + 1,
            1 << 20,
        ] {
            let mut bytes = vec![7; length as usize];
            std::fs::write(&one, &bytes).unwrap();
            std::fs::write(&two, &bytes).unwrap();
            for identify in [FileIdentity::whole, FileIdentity::sampled] {
                let first = identify("vda", &one).unwrap();
                assert_eq!((&*first.name, first.bytes), ("one", length));
                assert!(first.is_same(&identify("vda", &two).unwrap()));
                assert!(!first.is_same(&identify("vdb", &two).unwrap()));
                assert!(!first.is_same(&FileIdentity::none("vda")));
            }
            if let Some(last) = bytes.last_mut() {
                *last = 8;
                std::fs::write(&two, &bytes).unwrap();
                for identify in [FileIdentity::whole, FileIdentity::sampled] {
                    let (first, second) =
                        (identify("", &one).unwrap(), identify("", &two).unwrap());
                    assert!(!first.is_same(&second), "{length}");
                }
            }
        }
        let hash = FileIdentity::whole("", &one).unwrap().hash;
        assert_eq!(hash.len(), "sha256:".len() + 64);
    }

    #[test]
    fn a_file_of_another_length_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0; 8192]).unwrap();
        let short = FileIdentity::sampled("vda", &path).unwrap();
        std::fs::write(&path, vec![0; 8704]).unwrap();
        assert!(!short.is_same(&FileIdentity::sampled("vda", &path).unwrap()));
        assert!(FileIdentity::sampled("vda", &folder.path().join("none")).is_err());
    }
}
