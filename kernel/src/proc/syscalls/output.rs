//! `write` and `writev` to the console.

use super::errno::Errno;
use super::{Answer, Process};
use crate::console;
use crate::proc::sched;

/// Standard output and standard error.
const OPEN: core::ops::RangeInclusive<u64> = 1..=2;

/// Bytes copied at a time.
const CHUNK: u64 = 256;

/// Most buffers of one `writev` (Linux's `UIO_MAXIOV`), and most bytes of one
/// call.
const MAX_BUFFERS: u64 = 1024;
const MAX_BYTES: u64 = 0x7fff_f000;

/// `write(descriptor, address, length)`.
pub(super) fn write(process: &Process, descriptor: u64, address: u64, length: u64) -> Answer {
    if !OPEN.contains(&descriptor) {
        return Err(Errno::BadF);
    }
    copy(process, address, length.min(MAX_BYTES))
}

/// `writev(descriptor, vector, count)`.
pub(super) fn writev(process: &Process, descriptor: u64, vector: u64, count: u64) -> Answer {
    if !OPEN.contains(&descriptor) {
        return Err(Errno::BadF);
    }
    if count > MAX_BUFFERS {
        return Err(Errno::Inval);
    }
    let mut total = 0;
    for index in 0..count {
        let mut entry = [0; 16];
        let at = vector.checked_add(index * 16).ok_or(Errno::Fault);
        let one = at.and_then(|at| {
            process.memory().space().copy_in(at, &mut entry)?;
            let (address, length) = pair(entry);
            let wanted = length.min(MAX_BYTES - total);
            Ok((copy(process, address, wanted)?, wanted))
        });
        match one {
            Ok((written, wanted)) => {
                total += written;
                if written < wanted {
                    break;
                }
            }
            Err(error) if total == 0 => return Err(error),
            // What was written before an error is the result.
            Err(_) => break,
        }
    }
    Ok(total)
}

/// A `struct iovec`: address and length.
fn pair(entry: [u8; 16]) -> (u64, u64) {
    let value = u128::from_le_bytes(entry);
    (value as u64, (value >> 64) as u64)
}

/// Copies bytes to the console. A bad pointer at the start is an error; one
/// that comes later ends the copy. So does Ctrl-C, or a program that writes
/// gigabytes could not be stopped. The others get their turns meanwhile.
fn copy(process: &Process, address: u64, length: u64) -> Answer {
    let mut done = 0;
    while done < length && !process.is_ending() {
        let mut chunk = [0; CHUNK as usize];
        let size = (length - done).min(CHUNK);
        let bytes = chunk.get_mut(..size as usize).unwrap_or_default();
        let from = address.checked_add(done).ok_or(Errno::Fault);
        let copied = from.and_then(|from| {
            process.memory().space().copy_in(from, bytes)?;
            Ok(())
        });
        match copied {
            Ok(()) => console::write_stdout(bytes),
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
        done += size;
        sched::pause();
    }
    Ok(done)
}
