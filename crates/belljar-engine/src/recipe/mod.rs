//! What a sandbox image is made of: packages, languages, a lock, and the files that build it; pure.
//!
//! It knows no engine and reads no file: the build files are embedded.

mod build_files;
mod image_lock;
mod image_name;
mod language;
mod requirement;

pub use build_files::{BuildFiles, Packages, file_of_archive, language_words};
pub use image_lock::{ImageLock, LockError};
pub use image_name::{ImageName, OWN_IMAGE};
pub use language::{Language, languages};
pub use requirement::{Requirement, RequirementError};
