//! A handler that panics: its message has failed, and its last error says where and why.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::pin::{Pin, pin};
use std::sync::Once;
use std::task::{Context, Poll};

use futures::FutureExt;

/// In these the runtime takes a panic in; what comes after them on the stack is the handler's.
const MACHINERY: [&str; 2] = ["rust_begin_unwind", "core::panicking::panic"];

static HOOK: Once = Once::new();

thread_local! {
    /// Whether a handler is running on this thread.
    static WATCHING: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `future`; where it panics, the text says the value, the place and the stack.
///
/// While it runs, a panic is not printed as is usual: what a handler says may hold what it was
/// given, and belongs into the message's last error only.
pub(super) async fn catch<F: Future>(future: F) -> Result<F::Output, String> {
    HOOK.call_once(install);
    let watched = Watched(pin!(future));
    AssertUnwindSafe(watched)
        .catch_unwind()
        .await
        .map_err(|_| SEEN.take().unwrap_or_else(|| "the handler panicked".into()))
}

struct Watched<'a, F>(Pin<&'a mut F>);

impl<F: Future> Future for Watched<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _watch = Watch::begin();
        self.0.as_mut().poll(context)
    }
}

/// Ends also when the poll is unwound.
struct Watch;

impl Watch {
    fn begin() -> Self {
        WATCHING.set(true);
        Self
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHING.set(false);
    }
}

fn install() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if WATCHING.get() {
            SEEN.set(Some(describe(panic, &Backtrace::force_capture())));
        } else {
            usual(panic);
        }
    }));
}

fn describe(panic: &PanicHookInfo<'_>, stack: &Backtrace) -> String {
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let value = panic
        .payload_as_str()
        .map(|value| format!(": {value}"))
        .unwrap_or_default();
    format!("the handler panicked{place}{value}\n{}", relevant(&stack.to_string()))
}

/// The stack without what the runtime put on top of it.
fn relevant(stack: &str) -> &str {
    let begin = MACHINERY
        .iter()
        .filter_map(|name| stack.rfind(name))
        .max()
        // The next frame is a line or two below: `  12: name` and `at file`.
        .and_then(|last| {
            stack[last..]
                .match_indices('\n')
                .map(|(at, _)| last + at + 1)
                .find(|at| is_frame(&stack[*at..]))
        });
    &stack[begin.unwrap_or(0)..]
}

fn is_frame(text: &str) -> bool {
    text.trim_start()
        .split_once(": ")
        .is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}
