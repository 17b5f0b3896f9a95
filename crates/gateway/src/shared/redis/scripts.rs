//! The scripts that run in the store, each as one step.

use ::redis::Script;

/// All scripts, with their digests.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) beat: Script,
    pub(super) leave: Script,
    pub(super) create_session: Script,
    pub(super) take_over: Script,
    pub(super) change_session: Script,
    pub(super) release_session: Script,
    pub(super) remove_session: Script,
    pub(super) add_members: Script,
    pub(super) put_entry: Script,
    pub(super) take_tokens: Script,
    pub(super) start_call: Script,
    pub(super) renew_calls: Script,
    pub(super) call_counts: Script,
    pub(super) lock: Script,
    pub(super) unlock: Script,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        Scripts {
            beat: Script::new(BEAT),
            leave: Script::new(LEAVE),
            create_session: Script::new(CREATE_SESSION),
            take_over: Script::new(TAKE_OVER),
            change_session: Script::new(CHANGE_SESSION),
            release_session: Script::new(RELEASE_SESSION),
            remove_session: Script::new(REMOVE_SESSION),
            add_members: Script::new(ADD_MEMBERS),
            put_entry: Script::new(PUT_ENTRY),
            take_tokens: Script::new(TAKE_TOKENS),
            start_call: Script::new(START_CALL),
            renew_calls: Script::new(RENEW_CALLS),
            call_counts: Script::new(CALL_COUNTS),
            lock: Script::new(LOCK),
            unlock: Script::new(UNLOCK),
        }
    }
}

/// Keys: expiry times of replicas, their descriptions, generation, revision of the lists, and the lists.
const BEAT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('HDEL', KEYS[2], gone)
end
redis.call('PEXPIRE', KEYS[1], 3600000)
redis.call('PEXPIRE', KEYS[2], 3600000)
redis.call('SET', KEYS[3], ARGV[4], 'NX')
redis.call('PEXPIRE', KEYS[3], 2592000000)
local revision = redis.call('GET', KEYS[4]) or '0'
redis.call('PEXPIRE', KEYS[4], 2592000000)
local lists = false
if revision ~= ARGV[5] or revision == '0' then
  lists = {}
  for at = 5, #KEYS do table.insert(lists, redis.call('HGETALL', KEYS[at])) end
end
return {redis.call('HGETALL', KEYS[2]), redis.call('GET', KEYS[3]), revision, lists}
";

const LEAVE: &str = r"
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.status_reply('OK')
";

const CREATE_SESSION: &str = r"
local epoch = redis.call('HGET', KEYS[1], 'e')
if epoch and tonumber(epoch) > tonumber(ARGV[1]) then return 1 end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'e', ARGV[1], 'o', ARGV[2], 'r', ARGV[3], 'n', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 0
";

const TAKE_OVER: &str = r"
if redis.call('HGET', KEYS[1], 'e') ~= ARGV[1] then return false end
redis.call('HINCRBY', KEYS[1], 'e', 1)
redis.call('HSET', KEYS[1], 'o', ARGV[2])
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[3]) end
return {
  redis.call('HGET', KEYS[1], 'r'), redis.call('HGET', KEYS[1], 'n'),
  redis.call('HGETALL', KEYS[3]), redis.call('XRANGE', KEYS[2], '-', '+'),
}
";

/// An event that the store has already is left as it is: the owner may not have received the answer to its first write.
const CHANGE_SESSION: &str = r"
local epoch = redis.call('HGET', KEYS[1], 'e')
if not epoch then return 2 end
if epoch ~= ARGV[1] then return 1 end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'r', ARGV[3]) end
local at = 5
local function count()
  at = at + 1
  return tonumber(ARGV[at - 1])
end
for _ = 1, count() do
  redis.call('HSET', KEYS[3], ARGV[at], ARGV[at + 1])
  if tonumber(ARGV[at]) > tonumber(redis.call('HGET', KEYS[1], 'n')) then
    redis.call('HSET', KEYS[1], 'n', ARGV[at])
  end
  at = at + 2
end
for _ = 1, count() do
  local added = redis.pcall('XADD', KEYS[2], ARGV[at] .. '-1',
    's', ARGV[at + 1], 'n', ARGV[at + 2], 'd', ARGV[at + 3])
  if type(added) == 'table' and added.err and not string.find(added.err, 'equal or smaller') then
    return redis.error_reply(added.err)
  end
  at = at + 4
end
for _ = 1, count() do
  redis.call('HDEL', KEYS[3], ARGV[at])
  at = at + 1
end
if ARGV[4] ~= '0' then redis.call('XTRIM', KEYS[2], 'MINID', ARGV[4] .. '-0') end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[2]) end
return 0
";

const RELEASE_SESSION: &str = r"
if redis.call('HGET', KEYS[1], 'e') == ARGV[1] then redis.call('HSET', KEYS[1], 'o', '') end
return redis.status_reply('OK')
";

const REMOVE_SESSION: &str = r"
if redis.call('HGET', KEYS[1], 'e') == ARGV[1] then redis.call('DEL', KEYS[1], KEYS[2], KEYS[3]) end
return redis.status_reply('OK')
";

const ADD_MEMBERS: &str = r"
for at = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.status_reply('OK')
";

/// Keys: the list, the expiry times of its entries, the revision of all lists.
const PUT_ENTRY: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
end
for _, over in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('HDEL', KEYS[1], over)
  redis.call('ZREM', KEYS[2], over)
end
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
if last[2] then
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', last[2]))
  redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', last[2]))
end
redis.call('INCR', KEYS[3])
redis.call('PEXPIRE', KEYS[3], 2592000000)
return redis.status_reply('OK')
";

/// The generic cell rate algorithm: the value is the time at which the bucket is full again, in microseconds.
const TAKE_TOKENS: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local token = 1000000 / ARGV[1]
local full = tonumber(redis.call('GET', KEYS[1]) or '0')
if full < now then full = now end
local room = now + 1000000 - full
local available = math.floor(room / token + 0.000001)
local least = tonumber(ARGV[2])
if available < least then return {-1, math.ceil(least * token - room)} end
local granted = math.min(available, tonumber(ARGV[3]))
redis.call('SET', KEYS[1], string.format('%.3f', full + granted * token), 'PX', 3000)
return {granted, 0}
";

/// Keys, for each charge: the time at which the bucket of calls per minute is full again (microseconds), the calls of the
/// day, and the slots of running calls with their expiry times (milliseconds). Limits are one higher than they are; 0 is
/// no limit. Returns the charge that is used up, its limit and the wait in microseconds.
const START_CALL: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local millis = math.floor(now / 1000)
local day_end = (math.floor(time[1] / 86400) + 1) * 86400
local full = {}
for at = 1, #KEYS, 3 do
  local per_minute = tonumber(ARGV[at + 2])
  local per_day = tonumber(ARGV[at + 3])
  local concurrent = tonumber(ARGV[at + 4])
  local charge = (at - 1) / 3
  redis.call('ZREMRANGEBYSCORE', KEYS[at + 2], '-inf', millis)
  if concurrent > 0 and redis.call('ZCARD', KEYS[at + 2]) >= concurrent - 1 then
    return {charge, 3, 1000000}
  end
  if per_day > 0 and tonumber(redis.call('GET', KEYS[at + 1]) or '0') >= per_day - 1 then
    return {charge, 2, day_end * 1000000 - now}
  end
  if per_minute > 0 then
    local call = 60000000 / math.max(per_minute - 1, 1)
    full[at] = math.max(tonumber(redis.call('GET', KEYS[at]) or '0'), now) + call
    local excess = full[at] - now - 60000000
    if excess > call / 2 then return {charge, 1, math.ceil(excess)} end
  end
end
for at = 1, #KEYS, 3 do
  if full[at] then
    redis.call('SET', KEYS[at], string.format('%.3f', full[at]), 'PX', 120000)
  end
  redis.call('INCR', KEYS[at + 1])
  redis.call('EXPIREAT', KEYS[at + 1], day_end)
  redis.call('ZADD', KEYS[at + 2], millis + ARGV[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[at + 2], ARGV[2])
end
return {0, 0, 0}
";

const RENEW_CALLS: &str = r"
local time = redis.call('TIME')
local over = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
for at = 2, #ARGV do redis.call('ZADD', KEYS[1], over, ARGV[at]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.status_reply('OK')
";

/// Keys as for `START_CALL`; the arguments are the limits per minute.
const CALL_COUNTS: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local counts = {}
for at = 1, #KEYS, 3 do
  local per_minute = tonumber(ARGV[(at + 2) / 3])
  local minute = 0
  if per_minute > 0 then
    local missing = tonumber(redis.call('GET', KEYS[at]) or '0') - now
    local call = 60000000 / math.max(per_minute - 1, 1)
    if missing > 0 then minute = math.ceil(missing / call - 0.001) end
  end
  local day = tonumber(redis.call('GET', KEYS[at + 1]) or '0')
  local running = redis.call('ZCOUNT', KEYS[at + 2], '(' .. math.floor(now / 1000), '+inf')
  table.insert(counts, {minute, day, running})
end
return counts
";

const LOCK: &str = r"
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local fence = redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return fence
";

const UNLOCK: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return redis.status_reply('OK')
";
