//! How a tool is called, as Python says it: from its JSON Schemas and from what its results have looked like.
//!
//! Nothing of it is executed, here or in the sandbox; it is read by people, models, and Python's parser.

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
