//! A store in Redis or Valkey. Each operation is one command or one script, so that no other replica sees half of it. All
//! keys of a session, and all keys of the fleet, are in one slot of a cluster.

mod connection;
mod link;
mod scripts;
pub(crate) mod target;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value, cmd};
use async_trait::async_trait;
use tracing::warn;

use self::link::Link;
use self::scripts::Scripts;
use self::target::StoreTarget;
use super::store::{
    CallCharge, CallCounts, CallLimit, CallStart, Epoch, FleetSnapshot, Heartbeat, ReplicaId,
    SessionChanges, SessionContents, SessionWrite, SharedList, StateStore, StoreError, StoredEvent,
    StoredSession, TokenGrant, TokenRequest,
};

/// How long a fencing number is remembered after the lock was last taken.
const FENCE_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// A store in Redis or Valkey.
pub struct RedisStore {
    link: Link,
    prefix: String,
    scripts: Scripts,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.prefix)
    }
}

impl RedisStore {
    /// A store whose keys begin with a prefix, and the future that keeps it connected until the store is dropped. Nothing
    /// waits for the first connection.
    pub fn new(
        target: StoreTarget,
        prefix: &str,
    ) -> (RedisStore, impl Future<Output = ()> + Send + 'static) {
        let (link, running) = Link::new(target);
        let store = RedisStore { link, prefix: prefix.to_owned(), scripts: Scripts::new() };
        (store, running)
    }

    /// A key of the fleet.
    fn fleet_key(&self, name: &str) -> String {
        format!("{}:{{fleet}}:{name}", self.prefix)
    }

    /// The keys of a session: itself, its events, its open calls.
    fn session_keys(&self, id: &str) -> [String; 3] {
        ["s", "ev", "calls"].map(|name| format!("{}:{{{id}}}:{name}", self.prefix))
    }

    fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// The keys of charges, three each.
    fn charge_keys(&self, account: &str, charges: &[CallCharge]) -> Vec<String> {
        let keys =
            |it: &CallCharge| ["m", "d", "r"].map(|kind| self.quota_key(account, &it.quota, kind));
        charges.iter().flat_map(keys).collect()
    }

    /// A key of a counter. All keys of an account are in one slot of a cluster.
    fn quota_key(&self, account: &str, quota: &str, kind: &str) -> String {
        self.key(&format!("{{q:{account}}}:{quota}:{kind}"))
    }

    /// Runs a script.
    async fn run<T: FromRedisValue>(
        &self,
        script: &::redis::Script,
        keys: &[String],
        arguments: &[Argument<'_>],
    ) -> Result<T, StoreError> {
        let mut invocation = script.prepare_invoke();
        for key in keys {
            invocation.key(key);
        }
        for argument in arguments {
            match argument {
                Argument::Number(number) => invocation.arg(number),
                Argument::Text(text) => invocation.arg(text),
                Argument::Bytes(bytes) => invocation.arg(bytes),
            };
        }
        let invocation = &invocation;
        self.link
            .call(async move |connection| invocation.invoke_async::<T>(connection).await)
            .await
            .map_err(log_refusal)
    }

    async fn command<T: FromRedisValue>(&self, command: &::redis::Cmd) -> Result<T, StoreError> {
        self.link
            .call(async move |connection| command.query_async::<T>(connection).await)
            .await
            .map_err(log_refusal)
    }
}

/// An argument of a script.
#[derive(Debug, Clone, Copy)]
enum Argument<'a> {
    Number(u64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// The kind of an error. The text of the server is not logged, because it may repeat a value.
fn log_refusal(error: Option<RedisError>) -> StoreError {
    match error {
        None => StoreError::Away,
        Some(error) => {
            warn!(kind = ?error.kind(), code = error.code(), "the store refused a command");
            StoreError::Refused
        }
    }
}

fn millis(ttl: Duration) -> Argument<'static> {
    Argument::Number(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1))
}

/// A limit as scripts have it: one higher than it is, or 0 for none.
fn limit_argument(limit: Option<u64>) -> Argument<'static> {
    Argument::Number(limit.map_or(0, |it| it.saturating_add(1)))
}

fn unexpected(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::UnexpectedReturnType, what))
}

fn parse<T: FromRedisValue>(value: Value) -> RedisResult<T> {
    ::redis::from_redis_value(value).map_err(RedisError::from)
}

/// The result of a script that writes to a session.
fn session_write(code: u8) -> SessionWrite {
    match code {
        0 => SessionWrite::Written,
        1 => SessionWrite::NotOwner,
        _ => SessionWrite::Missing,
    }
}

/// The events of `XRANGE`.
fn parse_events(value: Value) -> RedisResult<Vec<StoredEvent>> {
    let entries: Vec<(String, HashMap<String, Vec<u8>>)> = parse(value)?;
    let number = |bytes: Option<Vec<u8>>| {
        let text = bytes.and_then(|it| String::from_utf8(it).ok());
        text.and_then(|it| it.parse().ok()).ok_or_else(|| unexpected("an event has no number"))
    };
    let event = |(id, mut fields): (String, HashMap<String, Vec<u8>>)| {
        let position = id.split('-').next().and_then(|it| it.parse().ok());
        Ok(StoredEvent {
            position: position.ok_or_else(|| unexpected("an event has no position"))?,
            stream: number(fields.remove("s"))?,
            number: number(fields.remove("n"))?,
            bytes: fields.remove("d").unwrap_or_default(),
        })
    };
    entries.into_iter().map(event).collect()
}

fn parse_contents(
    value: Value,
    (owner, epoch): (ReplicaId, Epoch),
) -> RedisResult<Option<SessionContents>> {
    if value == Value::Nil {
        return Ok(None);
    }
    let (record, last_stream, calls, events): (Vec<u8>, u64, HashMap<u64, Vec<u8>>, Value) =
        parse(value)?;
    Ok(Some(SessionContents {
        session: StoredSession { owner: Some(owner), epoch, record, last_stream },
        events: parse_events(events)?,
        open_calls: calls.into_iter().collect(),
    }))
}

#[async_trait]
impl StateStore for RedisStore {
    async fn beat(&self, heartbeat: &Heartbeat) -> Result<FleetSnapshot, StoreError> {
        let names = ["alive", "replicas", "generation", "revision"].into_iter();
        let names = names.chain(SharedList::ALL.map(SharedList::id));
        let keys: Vec<String> = names.map(|it| self.fleet_key(it)).collect();
        let id = heartbeat.replica.to_string();
        let arguments = [
            Argument::Text(&id),
            Argument::Bytes(&heartbeat.info),
            millis(heartbeat.ttl),
            Argument::Number(heartbeat.new_generation),
            Argument::Number(heartbeat.known_lists),
        ];
        type Entries = BTreeMap<String, Vec<u8>>;
        let answer: (Entries, u64, u64, Option<Vec<Entries>>) =
            self.run(&self.scripts.beat, &keys, &arguments).await?;
        let (replicas, generation, lists_revision, lists) = answer;
        let replicas = replicas.into_iter().filter_map(|(id, info)| Some((id.parse().ok()?, info)));
        let lists = lists.map(|lists| SharedList::ALL.into_iter().zip(lists).collect());
        Ok(FleetSnapshot { replicas: replicas.collect(), generation, lists_revision, lists })
    }

    async fn leave(&self, replica: ReplicaId) -> Result<(), StoreError> {
        let keys = [self.fleet_key("alive"), self.fleet_key("replicas")];
        let id = replica.to_string();
        self.run(&self.scripts.leave, &keys, &[Argument::Text(&id)]).await
    }

    async fn create_session(
        &self,
        id: &str,
        session: &StoredSession,
        ttl: Duration,
    ) -> Result<SessionWrite, StoreError> {
        let owner = session.owner.map(|it| it.to_string()).unwrap_or_default();
        let arguments = [
            Argument::Number(session.epoch),
            Argument::Text(&owner),
            Argument::Bytes(&session.record),
            Argument::Number(session.last_stream),
            millis(ttl),
        ];
        let code = self.run(&self.scripts.create_session, &self.session_keys(id), &arguments).await;
        code.map(session_write)
    }

    async fn find_session(&self, id: &str) -> Result<Option<StoredSession>, StoreError> {
        let [key, _, _] = self.session_keys(id);
        let mut command = cmd("HMGET");
        command.arg(key).arg(&["o", "e", "r", "n"]);
        type Fields = (Option<String>, Option<u64>, Option<Vec<u8>>, Option<u64>);
        let (owner, epoch, record, last_stream): Fields = self.command(&command).await?;
        let (Some(epoch), Some(record)) = (epoch, record) else { return Ok(None) };
        let owner = owner.and_then(|it| it.parse().ok());
        Ok(Some(StoredSession { owner, epoch, record, last_stream: last_stream.unwrap_or(0) }))
    }

    async fn take_over(
        &self,
        id: &str,
        expected: Epoch,
        (owner, ttl): (ReplicaId, Duration),
    ) -> Result<Option<SessionContents>, StoreError> {
        let owner_text = owner.to_string();
        let arguments = [Argument::Number(expected), Argument::Text(&owner_text), millis(ttl)];
        let value: Value =
            self.run(&self.scripts.take_over, &self.session_keys(id), &arguments).await?;
        parse_contents(value, (owner, expected + 1)).map_err(|error| log_refusal(Some(error)))
    }

    async fn change_session(
        &self,
        id: &str,
        epoch: Epoch,
        (changes, ttl): (&SessionChanges, Duration),
    ) -> Result<SessionWrite, StoreError> {
        let mut arguments = vec![
            Argument::Number(epoch),
            millis(ttl),
            Argument::Bytes(changes.record.as_deref().unwrap_or_default()),
            Argument::Number(changes.trim_before),
        ];
        let number = |count: usize| Argument::Number(count as u64);
        arguments.push(number(changes.opened.len()));
        for (stream, call) in &changes.opened {
            arguments.extend([Argument::Number(*stream), Argument::Bytes(call)]);
        }
        arguments.push(number(changes.events.len()));
        for event in &changes.events {
            let numbers = [event.position, event.stream, event.number].map(Argument::Number);
            arguments.extend(numbers);
            arguments.push(Argument::Bytes(&event.bytes));
        }
        arguments.push(number(changes.closed.len()));
        arguments.extend(changes.closed.iter().map(|it| Argument::Number(*it)));
        let keys = self.session_keys(id);
        self.run(&self.scripts.change_session, &keys, &arguments).await.map(session_write)
    }

    async fn release_session(&self, id: &str, epoch: Epoch) -> Result<(), StoreError> {
        let arguments = [Argument::Number(epoch)];
        self.run(&self.scripts.release_session, &self.session_keys(id), &arguments).await
    }

    async fn remove_session(&self, id: &str, epoch: Epoch) -> Result<(), StoreError> {
        let arguments = [Argument::Number(epoch)];
        self.run(&self.scripts.remove_session, &self.session_keys(id), &arguments).await
    }

    async fn put(&self, key: &str, value: &[u8], ttl: Duration) -> Result<(), StoreError> {
        let mut command = cmd("SET");
        command.arg(self.key(key)).arg(value).arg("PX").arg(ttl.as_millis().max(1).to_string());
        self.command(&command).await
    }

    async fn put_new(&self, key: &str, value: &[u8], ttl: Duration) -> Result<bool, StoreError> {
        let mut command = cmd("SET");
        command.arg(self.key(key)).arg(value).arg("NX").arg("PX");
        command.arg(ttl.as_millis().max(1).to_string());
        let written: Value = self.command(&command).await?;
        Ok(written != Value::Nil)
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let mut command = cmd("GET");
        command.arg(self.key(key));
        self.command(&command).await
    }

    async fn add_members(
        &self,
        key: &str,
        members: &[(String, Vec<u8>)],
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let mut arguments = vec![millis(ttl)];
        for (member, value) in members {
            arguments.extend([Argument::Text(member), Argument::Bytes(value)]);
        }
        self.run(&self.scripts.add_members, &[self.key(key)], &arguments).await
    }

    async fn members(&self, key: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut command = cmd("HVALS");
        command.arg(self.key(key));
        self.command(&command).await
    }

    async fn put_entry(
        &self,
        list: SharedList,
        (member, value): (&str, &[u8]),
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let expiries = format!("{}:expiry", list.id());
        let keys = [list.id(), expiries.as_str(), "revision"].map(|it| self.fleet_key(it));
        let arguments = [Argument::Text(member), Argument::Bytes(value), millis(ttl)];
        self.run(&self.scripts.put_entry, &keys, &arguments).await
    }

    async fn take_tokens(
        &self,
        account: &str,
        request: TokenRequest,
    ) -> Result<TokenGrant, StoreError> {
        let numbers = [request.per_second.max(1), request.at_least, request.at_most];
        let arguments = numbers.map(|it| Argument::Number(u64::from(it)));
        let keys = [self.key(&format!("rate:{account}"))];
        let (granted, wait): (i64, u64) =
            self.run(&self.scripts.take_tokens, &keys, &arguments).await?;
        Ok(match u32::try_from(granted) {
            Ok(granted) => TokenGrant::Granted(granted),
            Err(_) => TokenGrant::RetryAfter(Duration::from_micros(wait)),
        })
    }

    async fn start_call(
        &self,
        account: &str,
        charges: &[CallCharge],
        (slot, ttl): (&str, Duration),
    ) -> Result<CallStart, StoreError> {
        let limits =
            |it: &CallCharge| [it.per_minute, it.per_day, it.concurrent].map(limit_argument);
        let mut arguments = vec![Argument::Text(slot), millis(ttl)];
        arguments.extend(charges.iter().flat_map(limits));
        let keys = self.charge_keys(account, charges);
        let (charge, limit, wait): (usize, u8, u64) =
            self.run(&self.scripts.start_call, &keys, &arguments).await?;
        let limit = match limit {
            0 => return Ok(CallStart::Counted),
            1 => CallLimit::Minute,
            2 => CallLimit::Day,
            _ => CallLimit::Concurrent,
        };
        Ok(CallStart::Exceeded { charge, limit, retry_after: Duration::from_micros(wait) })
    }

    async fn renew_calls(
        &self,
        (account, quota): (&str, &str),
        slots: &[Arc<str>],
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let mut arguments = vec![millis(ttl)];
        arguments.extend(slots.iter().map(|it| Argument::Text(it)));
        let keys = [self.quota_key(account, quota, "r")];
        self.run(&self.scripts.renew_calls, &keys, &arguments).await
    }

    async fn end_calls(
        &self,
        (account, quota): (&str, &str),
        slots: &[Arc<str>],
    ) -> Result<(), StoreError> {
        let mut command = cmd("ZREM");
        command.arg(self.quota_key(account, quota, "r"));
        for slot in slots {
            command.arg(&**slot);
        }
        self.command(&command).await
    }

    async fn call_counts(
        &self,
        account: &str,
        charges: &[CallCharge],
    ) -> Result<Vec<CallCounts>, StoreError> {
        let keys = self.charge_keys(account, charges);
        let arguments: Vec<_> = charges.iter().map(|it| limit_argument(it.per_minute)).collect();
        let counts: Vec<(u64, u64, u64)> =
            self.run(&self.scripts.call_counts, &keys, &arguments).await?;
        let counts = counts.into_iter();
        Ok(counts.map(|(minute, day, running)| CallCounts { minute, day, running }).collect())
    }

    async fn lock(
        &self,
        name: &str,
        (holder, ttl): (&str, Duration),
    ) -> Result<Option<u64>, StoreError> {
        let keys = ["lock", "fence"].map(|kind| self.key(&format!("{{{name}}}:{kind}")));
        let arguments = [Argument::Text(holder), millis(ttl), millis(FENCE_TTL)];
        let fence: u64 = self.run(&self.scripts.lock, &keys, &arguments).await?;
        Ok(Some(fence).filter(|it| *it > 0))
    }

    async fn unlock(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        let keys = [self.key(&format!("{{{name}}}:lock"))];
        self.run(&self.scripts.unlock, &keys, &[Argument::Text(holder)]).await
    }
}
