//! What passes between the loop and its face: orders in, happenings out. While it waits to be heard it goes on
//! listening, so that a face which is busy saying something never waits for a loop that waits for it.

use std::sync::Arc;

use switchboard::calling::Desk;
use tokio::sync::mpsc;

use crate::happening::Happening;
use crate::language_model::LanguageModel;
use crate::talk::Order;
use crate::utterance::Part;

/// Why what is under way should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Halt {
    /// The person wants to speak.
    Interrupt,
    /// The person wants to begin anew.
    Clear,
    /// Nobody is there any more.
    Gone,
}

pub(super) struct Mouth {
    orders: mpsc::Receiver<Order>,
    out: mpsc::Sender<Happening>,
    model: Option<Arc<dyn LanguageModel>>,
    /// What was said and not taken up yet. Bounded by what a person types during one round.
    waiting: Vec<Vec<Part>>,
    /// The desk to go on at, where it is another one.
    desk: Option<Arc<Desk>>,
    halt: Option<Halt>,
}

impl Mouth {
    pub(super) fn new(
        orders: mpsc::Receiver<Order>,
        out: mpsc::Sender<Happening>,
        model: Option<Arc<dyn LanguageModel>>,
    ) -> Mouth {
        Mouth { orders, out, model, waiting: Vec::new(), desk: None, halt: None }
    }

    pub(super) fn model(&self) -> Option<Arc<dyn LanguageModel>> {
        self.model.clone()
    }

    pub(super) fn take_desk(&mut self) -> Option<Arc<Desk>> {
        self.desk.take()
    }

    pub(super) fn halt(&self) -> Option<Halt> {
        self.halt
    }

    /// What was to be stopped has stopped.
    pub(super) fn go_on(&mut self) {
        self.halt = self.halt.filter(|it| *it == Halt::Gone);
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn take_waiting(&mut self) -> Vec<Vec<Part>> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes the next order.
    pub(super) async fn listen(&mut self) {
        match self.halt {
            // Who is gone says nothing more, and that at once.
            Some(Halt::Gone) => std::future::pending().await,
            Some(Halt::Interrupt | Halt::Clear) | None => {
                let order = self.orders.recv().await;
                self.heed(order);
            }
        }
    }

    fn heed(&mut self, order: Option<Order>) {
        let halt = match order {
            Some(Order::Say(parts)) => return self.waiting.push(parts),
            Some(Order::Model(model)) => {
                self.model = model;
                return;
            }
            Some(Order::Desk(desk)) => {
                self.desk = Some(desk);
                return;
            }
            Some(Order::TakeBack(reply)) => {
                let _nobody_waits = reply.send(self.waiting.pop().is_some());
                return;
            }
            Some(Order::Interrupt) => Halt::Interrupt,
            Some(Order::Clear) => {
                self.waiting.clear();
                Halt::Clear
            }
            None => Halt::Gone,
        };
        self.halt = self.halt.max(Some(halt));
    }

    /// Says what happened, once there is room for it.
    pub(super) async fn tell(&mut self, happening: Happening) {
        while self.halt != Some(Halt::Gone) {
            let order = tokio::select! {
                biased;
                room = self.out.reserve() => {
                    match room {
                        Ok(room) => room.send(happening),
                        Err(_) => self.halt = Some(Halt::Gone),
                    }
                    return;
                }
                order = self.orders.recv() => order,
            };
            self.heed(order);
        }
    }
}
