//! `swb idp`.
