//! The computer server on virtual screens, with a window manager, a terminal and a GTK program.

mod access;
mod clipboard;
mod computer;
mod health;
mod hostile_programs;
mod keyboard;
mod pictures;
mod pointer;
mod screen;
mod test_window;
mod user_input;
mod windows;
