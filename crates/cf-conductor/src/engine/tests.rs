mod config;
mod environment;
mod invocation;
mod said;
mod verdict;
