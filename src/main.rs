//! The `agent` binary: one line into the command line.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    manychat_agent::cli::run()
}
