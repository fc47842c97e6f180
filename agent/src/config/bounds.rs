//! What a value may be.

/// The allowed values of one key, both ends included.
pub(crate) struct Bounds<T> {
    pub(crate) least: T,
    pub(crate) most: T,
    pub(super) default: T,
}
