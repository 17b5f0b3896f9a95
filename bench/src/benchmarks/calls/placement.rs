//! Where processes run. Two that wait for each other cost several times as much on two cores that fall asleep
//! in between as on one, and which of both they get is luck; so both are measured, and named.

use crate::failure::Failure;

/// Where a client and its server run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Both on the same core.
    OneCore,
    /// Wherever the system puts them, now and then elsewhere.
    AnyCore,
}

impl Placement {
    /// Does it with this placement for every process that is started meanwhile.
    pub fn during<T>(self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        match self {
            Placement::AnyCore => work(),
            Placement::OneCore => affinity::on_one_core(work),
        }
    }
}

#[cfg(target_os = "linux")]
mod affinity {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    use crate::failure::Failure;

    const THIS: Pid = Pid::from_raw(0);

    /// Keeps to the first core that we may use, and what is started meanwhile with us.
    pub fn on_one_core<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let before = sched_getaffinity(THIS).map_err(Failure::Usage)?;
        let mut one = CpuSet::new();
        let first = cores(&before).next();
        one.set(first.unwrap_or(0)).map_err(Failure::Usage)?;
        sched_setaffinity(THIS, &one).map_err(Failure::Usage)?;
        let done = work();
        sched_setaffinity(THIS, &before).map_err(Failure::Usage)?;
        done
    }

    /// The cores of a set.
    pub fn cores(set: &CpuSet) -> impl Iterator<Item = usize> {
        (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false))
    }
}

#[cfg(not(target_os = "linux"))]
mod affinity {
    use crate::failure::Failure;

    /// Other systems have no such promise; a figure without it would not be what its column says.
    pub fn on_one_core<T>(_work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        Err(Failure::Usage(nix::Error::ENOTSUP))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use nix::sched::sched_getaffinity;
    use nix::unistd::Pid;

    use super::*;

    fn cores() -> usize {
        affinity::cores(&sched_getaffinity(Pid::from_raw(0)).expect("it is our own")).count()
    }

    #[test]
    fn single_core_placement_is_temporary() {
        let before = cores();
        let meanwhile = Placement::OneCore.during(|| Ok(cores())).unwrap();
        assert_eq!((meanwhile, cores()), (1, before));
        assert_eq!(Placement::AnyCore.during(|| Ok(cores())).unwrap(), before);
    }
}
