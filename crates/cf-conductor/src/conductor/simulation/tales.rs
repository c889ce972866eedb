//! What the simulation found, each as a small story of its own.
