//! Word of a replay's progress.

/// Receives how far a replay is.
pub trait Watch {
    /// A pass over a file of this many bytes begins.
    fn begin(&self, what: &'static str, bytes: u64);
    /// So many bytes of it have been read.
    fn at(&self, bytes: u64);
}
