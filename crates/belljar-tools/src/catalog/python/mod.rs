//! The call of a tool in Python's syntax, from its JSON Schemas and from the shapes of its results.
//!
//! The text is never executed, here or in the sandbox; people, models and Python's parser read it.

mod facts;
mod notes;
mod reader;
mod repr;
mod result_shape;
mod shape;
mod shapes;
mod signature;
mod stub;
mod types;

pub use repr::json_of_repr;
pub use shapes::{AnsweredCall, Observation, Shapes};
pub use signature::{signature, type_of};
