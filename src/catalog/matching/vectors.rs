//! The vectors of a server's tools, and their similarity to a query's vector.
//!
//! It encodes nothing: a caller with an encoder provides the vectors.

/// A vector of length 1 for each of a server's tools, in their order.
#[derive(Debug)]
pub struct Vectors {
    dimensions: usize,
    numbers: Box<[f32]>,
}

impl Vectors {
    /// Makes vectors from their components, one vector after the other; `None` if the number of components is no
    /// multiple of `dimensions`, if `dimensions` is 0, or if a component is not finite.
    #[must_use]
    pub fn new(dimensions: usize, numbers: Vec<f32>) -> Option<Self> {
        let is_sound = dimensions > 0
            && numbers.len().is_multiple_of(dimensions)
            && numbers.iter().all(|number| number.is_finite());
        is_sound.then(|| Self { dimensions, numbers: numbers.into() })
    }

    /// The number of vectors.
    #[must_use]
    pub fn count(&self) -> usize {
        self.numbers.len() / self.dimensions
    }

    /// The similarity of each vector to a vector of length 1, from -1 to 1; `None` if that has another number of
    /// dimensions.
    pub(in crate::catalog) fn nearness(&self, vector: &[f32]) -> Option<impl Iterator<Item = f32>> {
        let is_alike = self.dimensions == vector.len();
        is_alike.then(|| self.numbers.chunks_exact(vector.len()).map(|tool| product(tool, vector)))
    }
}

/// The scalar product, always summed in the same eight lanes, so that it is fast and equal on every machine.
fn product(one: &[f32], other: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (ones, others) = (one.chunks_exact(8), other.chunks_exact(8));
    let rest: f32 = ones.remainder().iter().zip(others.remainder()).map(|(one, other)| one * other).sum();
    for (one, other) in ones.zip(others) {
        for ((lane, one), other) in lanes.iter_mut().zip(one).zip(other) {
            *lane += one * other;
        }
    }
    lanes.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::contents::tests::catalog;
    use crate::catalog::{Catalog, Query, search};

    fn some() -> Catalog {
        catalog(&[
            ("mail", json!([{"name": "sendGmailMessage", "description": "Sends\n a  message."}])),
            ("none", json!([])),
            ("shop", json!([{"name": "buy"}, {"name": "sell"}])),
        ])
    }

    /// A catalog in which each server with tools has vectors of two numbers.
    fn with_vectors(of_mail: [f32; 2], of_shop: [f32; 4]) -> Catalog {
        let catalog = some();
        catalog.servers()[0].set_vectors(Vectors::new(2, of_mail.to_vec()).unwrap());
        catalog.servers()[2].set_vectors(Vectors::new(2, of_shop.to_vec()).unwrap());
        catalog
    }

    fn found(catalog: &Catalog, text: &str, vector: &[f32]) -> Vec<String> {
        let (hits, total) = search(catalog, Query { text, vector: Some(vector) }, 10, 0);
        assert_eq!(hits.len(), total);
        hits.iter().map(|hit| hit.tool().name.as_str().to_owned()).collect()
    }

    #[test]
    fn what_means_the_same_is_found_without_a_word_of_it() {
        let catalog = with_vectors([1.0, 0.0], [0.0, 1.0, 0.6, 0.8]);
        assert_eq!(found(&catalog, "zebra giraffe", &[1.0, 0.0]), ["sendGmailMessage", "sell"]);
        assert_eq!(found(&catalog, "acquire", &[0.0, 1.0]), ["buy", "sell"]);
        // Matching words count in addition, and an exact name comes before everything.
        assert_eq!(found(&catalog, "message acquire", &[0.0, 1.0])[..2], ["buy", "sell"]);
        assert_eq!(found(&catalog, "shop.sell", &[1.0, 0.0])[0], "sell");
    }

    #[test]
    fn while_a_tool_has_no_vector_or_another_models_the_words_alone_count() {
        let catalog = some();
        assert!(!catalog.servers()[0].has_vectors() && catalog.servers()[1].has_vectors());
        catalog.servers()[0].set_vectors(Vectors::new(2, vec![1.0, 0.0]).unwrap());
        assert_eq!(found(&catalog, "zebra giraffe", &[1.0, 0.0]), [""; 0]);
        let whole = with_vectors([1.0, 0.0], [0.0, 1.0, 0.6, 0.8]);
        assert_eq!(found(&whole, "zebra giraffe", &[1.0, 0.0, 0.0]), [""; 0]);
        // One vector for several tools is refused.
        catalog.servers()[2].set_vectors(Vectors::new(2, vec![1.0, 0.0]).unwrap());
        assert!(!catalog.servers()[2].has_vectors());
    }

    #[test]
    fn numbers_that_are_no_vectors_are_none() {
        assert!(Vectors::new(0, vec![]).is_none() && Vectors::new(2, vec![1.0; 3]).is_none());
        assert!(Vectors::new(1, vec![f32::NAN]).is_none());
        assert_eq!(Vectors::new(2, vec![0.5; 6]).unwrap().count(), 3);
    }
}
