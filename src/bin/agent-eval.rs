//! The `agent-eval` binary: `agent eval` under a name of its own.

fn main() -> std::process::ExitCode {
    manychat_agent::cli::run_eval()
}
