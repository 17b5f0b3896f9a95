//! The dashboard: HTML pages about a running gateway, and the changes that its operator makes there. Knows no sockets:
//! `http::dashboard_endpoint` passes requests that have passed the host and origin check. Everything that comes from
//! servers, clients or files is text; maud escapes it, and [`parts::shown`] makes invisible characters visible.

mod access;
mod actions;
mod assets;
mod clients;
mod context;
mod events;
mod form;
mod history;
mod operator;
mod page;
mod parts;
mod records;
mod respond;
mod runs;
mod screens;
mod tool_form;
mod usage_report;

pub(crate) use clients::{ClientDirectory, PrincipalRow, SessionEnd, SessionRow};
pub use context::Dashboard;
pub use operator::{
    ConfiguredServer, DashboardOperator, OperatorView, RuleLine, ServerSwitch, SharedHostView,
    SharedProgramView, SimulationInputs,
};
pub(crate) use respond::{DashboardBody, DashboardRequest};
