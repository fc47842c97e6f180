//! One loader for many objects.
//!
//! aya reads the kernel's types (BTF, 5 MB and 100,000 records) whenever a loader is made, and a program that is attached by type needs
//! them once more. That takes longer than all else the agent does at its start, the kernel's verifier aside. While somebody holds
//! [`KernelTypes`], they are read once for each of the two purposes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};

/// As long as one of these is there, what was read of the kernel's types is kept: some 40 MB.
#[must_use]
#[derive(Debug)]
pub struct KernelTypes(());

struct SharedLoader {
    holders: usize,
    loader: Option<EbpfLoader<'static>>,
    types: Option<Btf>,
}

static KEPT: Mutex<SharedLoader> = Mutex::new(SharedLoader { holders: 0, loader: None, types: None });

impl SharedLoader {
    fn lock() -> MutexGuard<'static, Self> {
        // What a panic leaves is a loader that was not used to its end; it is set anew for each object.
        KEPT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_unless_held(&mut self) {
        if self.holders == 0 {
            (self.loader, self.types) = (None, None);
        }
    }
}

impl KernelTypes {
    /// From now on they are kept.
    pub fn keep() -> Self {
        SharedLoader::lock().holders += 1;
        Self(())
    }
}

impl Drop for KernelTypes {
    fn drop(&mut self) {
        let mut kept = SharedLoader::lock();
        kept.holders -= 1;
        kept.forget_unless_held();
    }
}

/// Loads an object after `prepare` has set its constants and the sizes of its maps. What it sets holds for later objects as well: a constant
/// has to be set whenever an object has it.
pub(super) fn load(object: &[u8], prepare: impl FnOnce(&mut EbpfLoader<'static>)) -> Result<Ebpf, EbpfError> {
    let mut kept = SharedLoader::lock();
    let loader = kept.loader.get_or_insert_with(EbpfLoader::new);
    prepare(loader);
    let loaded = loader.load(object);
    kept.forget_unless_held();
    loaded
}

/// Calls `attach` with the kernel's types, for programs that are attached by them.
///
/// # Errors
/// This kernel has none.
pub(super) fn with_types<T>(attach: impl FnOnce(&Btf) -> T) -> Result<T, BtfError> {
    let mut kept = SharedLoader::lock();
    let types = match kept.types.take() {
        Some(types) => types,
        None => Btf::from_sys_fs()?,
    };
    let done = attach(&types);
    kept.types = Some(types);
    kept.forget_unless_held();
    Ok(done)
}

/// A constant of an object that lives as long as the process, as the loader does. There are few different ones: a link layer, a namespace.
pub(super) fn constant<T: PartialEq + Copy + Send + Sync>(
    known: &Mutex<Vec<&'static T>>,
    value: T,
) -> &'static T {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = known.iter().copied().find(|same| **same == value) {
        return same;
    }
    let made: &'static T = Box::leak(Box::new(value));
    known.push(made);
    made
}
