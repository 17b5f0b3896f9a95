//! Conversations and model clients, against scripted models and servers.

mod chronicles;
mod clients;
mod rehearsals;
mod samples;
mod stage;
mod talks;
mod whole_talks;
