//! Which disk the logs of a lab's host lie on, as a stack file says it.
//!
//! Words only: nothing is mounted here. Invariant: a folder that passes is an absolute path.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A disk for the logs of a host. Text: `memory`, `image`, `image-sync`, or the path of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDisk {
    /// Memory, of 2 GiB at most.
    Memory,
    /// A file system of its own of 2 GiB, in a file on the disk where the logs of labs lie.
    Image,
    /// The same, mounted so that each write waits until it is on the disk.
    ImageSync,
    /// The disk that this folder lies on.
    Folder(String),
}

impl FromStr for LogDisk {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(Self::Memory),
            "image" => Ok(Self::Image),
            "image-sync" => Ok(Self::ImageSync),
            folder if folder.starts_with('/') => Ok(Self::Folder(folder.to_string())),
            _ => Err(format!(
                "`{text}` is no disk: write `memory`, `image`, `image-sync`, or a folder on another disk, like `/mnt/ssd`"
            )),
        }
    }
}

impl fmt::Display for LogDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Image => "image",
            Self::ImageSync => "image-sync",
            Self::Folder(folder) => folder,
        })
    }
}

impl Serialize for LogDisk {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for LogDisk {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_written_as_it_is_read() {
        for text in ["memory", "image", "image-sync", "/mnt/ssd"] {
            assert_eq!(text.parse::<LogDisk>().unwrap().to_string(), text);
        }
        let wrong = "ssd".parse::<LogDisk>().unwrap_err();
        assert!(wrong.starts_with("`ssd` is no disk: write `memory`, `image`, `image-sync`, or a folder"), "{wrong}");
    }
}
