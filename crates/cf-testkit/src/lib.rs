//! What cf's tests share: temporary workspaces, scripted agents, a scripted GitHub.
