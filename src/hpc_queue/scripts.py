"""The transitions of jobs, as scripts that Redis runs: each happens as a whole or not at all.

This is the one place where the state of an element changes. `store` calls the scripts by name and
knows what their answers mean; nobody else writes the keys below. A script that is sent again,
because its answer was lost, changes nothing the second time: submissions and claims carry a token.

Keys, each after the prefix of the queue:

    job:<id>        hash: what was submitted, counts by state (n0 to n5), held, begun, ended
    st:<id>         a byte for each element: its state, plus 8 times how often it was begun
    rec:<id>        16 bytes for each element that ran: begin (s), duration (ms), exit, number of
                    its worker
    out:<id>        hash, by element: how long its output is (8 bytes), and the end of that
    own:<id>        hash, by running element: worker, slot, and `c` when it is to be cancelled
    par:<id>        hash, by block: what differs between elements, compressed
    hist:<id>       list: what happened to elements beside running once
    next:<id>       set: the jobs that wait for this one
    job ids         `seq` the last, `jobs` all by time, `open` those not ended
    worker:<name>   hash: what a worker says of itself, `beats`, `draining`; `last<slot>` is what
                    was answered to the last report of a slot
    numbers         hash: the names of the last 100,000 workers, by number
    run:<name>      hash, by slot: which element runs there, where its chunk ends, and the token
    cmd:<name>      list: what a worker is told
    count           hash, by `<class>/<state>`; a class is a definition with what a job of it takes,
                    of ended elements the definition alone
    begun           hash: how many runs have begun, by definition
    ran             hash: how many have ended by themselves, and for how long they ran, likewise
    cluster         what the last pass of the loop has seen of the cluster
    why             hash: why jobs wait for workers, by class or definition, as the loop has it
    closed:<node>   there while nothing is to begin on workers that join from a node
    leader          the worker that looks after the others, for as long as it says so
    searched, looks when it was last searched for jobs without a ticket, and what was found
    overtaken       which jobs later ones have overtaken, as a search has found them
    token:<token>   the job of a submission
    halt            there while nothing may begin
"""

_PRELUDE = r"""
local P, now = ARGV[1], ARGV[2]
local function key(kind, id) return P .. kind .. ':' .. id end

-- patterns that match the bytes of some states, and what each such byte becomes
local function bytes_of(states)
  local class, found = '', {}
  for _, state in ipairs(states) do
    for tries = 0, 31 do
      local c = string.char(state + 8 * tries)
      found[c] = tries
      if c == '\0' then class = class .. '%z'
      elseif c:find('%w') then class = class .. c
      else class = class .. '%' .. c end
    end
  end
  return '[' .. class .. ']', found
end
local WAITING = @WAITING@

-- so many more elements of a class in a state. Those that have ended are counted by definition
-- alone; of other classes nothing is kept where there are none
local function tally(class, state, n)
  if state ~= 'h' and tonumber(state) > 1 then class = class:match('^[^|]*') .. '|||' end
  local field = class .. '/' .. state
  if redis.call('HINCRBY', P .. 'count', field, n) == 0 and class:sub(-3) ~= '|||' then
    redis.call('HDEL', P .. 'count', field)
  end
end

local function count(id, from, to, n)
  if n == 0 then return end
  local about = redis.call('HMGET', key('job', id), 'class', 'held')
  local held = tonumber(about[2]) > 0
  local function named(state) return (state == 0 and held) and 'h' or tostring(state) end
  redis.call('HINCRBY', key('job', id), 'n' .. from, -n)
  redis.call('HINCRBY', key('job', id), 'n' .. to, n)
  tally(about[1], named(from), -n)
  tally(about[1], named(to), n)
end

local function note(id, first, last, what)
  redis.call('RPUSH', key('hist', id), cjson.encode({first, last, now, what}))
  redis.call('LTRIM', key('hist', id), -10000, -1)
end

-- the elements of a range in these states get another one; `keep`: with the tries that they had
local function rewrite(id, lo, hi, pattern, tries_of, to, keep)
  local text = redis.call('GETRANGE', key('st', id), lo, hi - 1)
  local became = {}
  for c, tries in pairs(tries_of) do
    became[c] = string.char(to + 8 * (keep and tries or 0))
  end
  local new, changed = text:gsub(pattern, became)
  if changed > 0 then redis.call('SETRANGE', key('st', id), lo, new) end
  return changed
end

local function cancel_waiting(id, lo, hi, why)
  local pattern, tries_of = bytes_of({0})
  local changed = rewrite(id, lo, hi, pattern, tries_of, 5, true)
  if changed > 0 then
    count(id, 0, 5, changed)
    note(id, lo, hi - 1, why)
  end
  return changed
end

local function because_of(id)
  return 'cancelled: job ' .. id .. ', which it is after, did not succeed'
end

local KINDS = {'job', 'st', 'rec', 'out', 'own', 'par', 'hist'}

-- what follows when nothing of a job waits or runs any more; the ids of jobs that need not wait now
local released = {}
local function settle(first)
  local todo = {first}
  while #todo > 0 do
    local id = table.remove(todo)
    local said = redis.call('HMGET', key('job', id), 'n0', 'n1', 'n2', 'count', 'keep', 'ended')
    if said[1] == '0' and said[2] == '0' and not said[6] then
      redis.call('HSET', key('job', id), 'ended', now)
      redis.call('SREM', P .. 'open', id)
      local good = said[3] == said[4]
      for _, other in ipairs(redis.call('SMEMBERS', key('next', id))) do
        local about = redis.call('HMGET', key('job', other),
          'count', 'after_any', 'n0', 'class', 'ended', 'held')
        if about[5] and tonumber(about[6]) > 0 then
          -- it was cancelled by hand; when it is retried, what it waits for is counted anew
          redis.call('HINCRBY', key('job', other), 'held', -1)
        elseif about[1] and tonumber(about[6]) > 0 then
          if not good and about[2] ~= '1' then
            cancel_waiting(other, 0, tonumber(about[1]), because_of(id))
            redis.call('HSET', key('job', other), 'held', 0)
            todo[#todo + 1] = other
          elseif redis.call('HINCRBY', key('job', other), 'held', -1) == 0 then
            tally(about[4], 'h', -about[3])
            tally(about[4], '0', about[3])
            released[#released + 1] = other
          end
        end
      end
      redis.call('DEL', key('next', id))
      if tonumber(said[5]) > 0 then
        for _, kind in ipairs(KINDS) do redis.call('EXPIRE', key(kind, id), said[5]) end
      end
    end
  end
end

local function running_in(worker, slot)
  local said = redis.call('HGET', key('run', worker), slot)
  if not said then return nil end
  local id, at, hi, token = said:match('^(%S+) (%d+) (%d+) (%S+)$')
  return {id = id, at = tonumber(at), hi = tonumber(hi), token = token}
end

-- An element is no longer running. `outcome`: the state that it would get, 0 for one that has not
-- begun after all; `exit` only of one that ended by itself. Returns whether it waits again.
local function leave(worker, slot, outcome, why, exit)
  local run = running_in(worker, slot)
  local id, at = run.id, run.at
  local own = redis.call('HGET', key('own', id), at) or ''
  local byte = redis.call('GETRANGE', key('st', id), at, at):byte()
  local tries = math.floor(byte / 8)
  local about = redis.call('HMGET', key('job', id), 'retries', 'retry_failed')
  local to = outcome
  if own:sub(-2) == ' c' and outcome ~= 2 then to = 5
  elseif outcome == 0 then tries = tries - 1
  elseif tries <= tonumber(about[1]) then
    if outcome == 4 or (outcome == 3 and about[2] == '1') then to = 0 end
  end
  redis.call('SETRANGE', key('st', id), at, string.char(to + 8 * tries))
  redis.call('HDEL', key('run', worker), slot)
  redis.call('HDEL', key('own', id), at)
  count(id, 1, to, 1)
  if why == '' and outcome == 3 and to == 0 then why = 'exit ' .. exit end
  if why ~= '' then
    local then_what = (to == 0 and outcome ~= 0) and ', runs again' or ''
    note(id, at, at, 'run ' .. math.max(tries, 1) .. ': ' .. why .. then_what)
  end
  if to == 0 then return true end
  settle(id)
  return false
end
"""

SUBMIT = r"""
-- token, number of elements, class, description, retries, whether failures are retried and any
-- end will do, how long it is kept, ids that it is after in one text, the list for its ticket or
-- '', the ticket with @JOB@ in the place of the id, then the blocks of what differs between
-- elements -> id, how many jobs it waits for, whether its ticket was written (1)
local token, n, class, after_any, after = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[9], {}
for other in ARGV[11]:gmatch('%d+') do after[#after + 1] = other end
local known = redis.call('GET', key('token', token))
if known then
  return {known, redis.call('HGET', key('job', known), 'held') or '0', ARGV[12] ~= '' and 1 or 0}
end
for _, other in ipairs(after) do
  if redis.call('EXISTS', key('job', other)) == 0 then
    return redis.error_reply('AFTER ' .. other)
  end
end
local id = tostring(redis.call('INCR', P .. 'seq'))
redis.call('HSET', key('job', id), 'class', class, 'count', n, 'held', 0, 'submitted', now,
  'spec', ARGV[6], 'retries', ARGV[7], 'retry_failed', ARGV[8], 'after_any', after_any,
  'keep', ARGV[10], 'n0', n, 'n1', 0, 'n2', 0, 'n3', 0, 'n4', 0, 'n5', 0)
redis.call('SETRANGE', key('st', id), n - 1, '\0')
tally(class, '0', n)
redis.call('ZADD', P .. 'jobs', id, id)
redis.call('SADD', P .. 'open', id)
redis.call('SET', key('token', token), id, 'EX', 86400)
for at = 14, #ARGV do redis.call('HSET', key('par', id), at - 14, ARGV[at]) end
local held, refused = 0, nil
for _, other in ipairs(after) do
  local said = redis.call('HMGET', key('job', other), 'ended', 'n2', 'count')
  if not said[1] then
    held = held + redis.call('SADD', key('next', other), id)
  elseif said[2] ~= said[3] and after_any ~= '1' then refused = other end
end
if held > 0 then
  redis.call('HSET', key('job', id), 'held', held)
  tally(class, '0', -n)
  tally(class, 'h', n)
end
if refused then
  cancel_waiting(id, 0, n, because_of(refused))
  redis.call('HSET', key('job', id), 'held', 0)
  settle(id)
end
local written = 0
if ARGV[12] ~= '' and held == 0 and not refused then
  redis.call('LPUSH', ARGV[12], (ARGV[13]:gsub('@JOB@', id)))
  written = 1
end
return {id, tostring(held), written}
"""

STEP = r"""
-- worker, slot; what ended there: token or '', outcome, exit, begin (s), duration (ms), output,
-- why;
-- what is to begin: id or '', range, token
-- -> whether the end counted (1), whether that element waits again (1), what became of the claim,
--    element, tries, ids released
local worker, slot, ended_token = ARGV[3], ARGV[4], ARGV[5]
local counted, again = 0, 0
if ended_token ~= '' then
  local run = running_in(worker, slot)
  if run and run.token == ended_token then
    counted = 1
    local outcome, exit, out = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[10]
    if outcome ~= 0 then
      local number = tonumber(redis.call('HGET', key('worker', worker), 'number') or '0')
      redis.call('SETRANGE', key('rec', run.id), run.at * 16,
        struct.pack('<I4I4i4I4', tonumber(ARGV[8]), tonumber(ARGV[9]), exit, number))
      if out ~= '' then redis.call('HSET', key('out', run.id), run.at, out)
      else redis.call('HDEL', key('out', run.id), run.at) end
      redis.call('HINCRBY', key('worker', worker), 'done', 1)
      if outcome == 2 or outcome == 3 then
        local definition = redis.call('HGET', key('job', run.id), 'class'):match('^[^|]*')
        redis.call('HINCRBY', P .. 'ran', definition .. '/runs', 1)
        redis.call('HINCRBY', P .. 'ran', definition .. '/ms', tonumber(ARGV[9]))
      end
    end
    if leave(worker, slot, outcome, ARGV[11], ARGV[7]) then again = 1 end
    redis.call('HSET', key('worker', worker), 'last' .. slot,
      ended_token .. ' ' .. again .. ' ' .. table.concat(released, ' '))
  else
    -- the answer to this report may have been lost, and with it who needs tickets
    local last = redis.call('HGET', key('worker', worker), 'last' .. slot) or ''
    local before, was_again, others = last:match('^(%S+) (%d) (.*)$')
    if before == ended_token then
      counted, again = 1, tonumber(was_again)
      for other in others:gmatch('%S+') do released[#released + 1] = other end
    end
  end
end
local id = ARGV[12]
local function answer(what, at, tries) return {counted, again, what, at, tries, released} end
if id == '' then return answer('none', -1, 0) end
local lo, hi, token = tonumber(ARGV[13]), tonumber(ARGV[14]), ARGV[15]
local run = running_in(worker, slot)
if run and run.token == token then
  local byte = redis.call('GETRANGE', key('st', id), run.at, run.at):byte()
  return answer('begun', run.at, math.floor(byte / 8))
end
local about = redis.call('HMGET', key('job', id), 'held', 'count', 'class', 'begun')
local state = redis.call('HMGET', key('worker', worker), 'draining', 'host')
if run then return answer('busy', -1, 0) end
if not state[2] then return answer('lost', -1, 0) end
if state[1] then return answer('draining', -1, 0) end
if redis.call('EXISTS', P .. 'halt') == 1 then return answer('halted', -1, 0) end
if not about[2] or tonumber(about[1]) > 0 then return answer('none', -1, 0) end
local text = redis.call('GETRANGE', key('st', id), lo, hi - 1)
local found = text:find(WAITING)
if not found then return answer('none', -1, 0) end
local at, tries = lo + found - 1, math.min(31, math.floor(text:byte(found) / 8) + 1)
redis.call('SETRANGE', key('st', id), at, string.char(1 + 8 * tries))
redis.call('HSET', key('run', worker), slot, id .. ' ' .. at .. ' ' .. hi .. ' ' .. token)
redis.call('HSET', key('own', id), at, worker .. ' ' .. slot)
if tries > 1 then redis.call('HDEL', key('out', id), at) end
count(id, 0, 1, 1)
if not about[4] then redis.call('HSET', key('job', id), 'begun', now) end
redis.call('HINCRBY', P .. 'begun', (about[3]:match('^[^|]*')), 1)
return answer('begun', at, tries)
"""

CANCEL = r"""
-- id, range, why -> how many waited, how many ran and are told, ids released
local id, lo, hi, why = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
if redis.call('EXISTS', key('job', id)) == 0 then return {-1, 0, {}} end
local changed = cancel_waiting(id, lo, hi, why)
local told, pairs_of = 0, redis.call('HGETALL', key('own', id))
for i = 1, #pairs_of, 2 do
  local at, own = tonumber(pairs_of[i]), pairs_of[i + 1]
  if at >= lo and at < hi then
    told = told + 1
    if own:sub(-2) ~= ' c' then
      redis.call('HSET', key('own', id), at, own .. ' c')
      note(id, at, at, why)
      redis.call('RPUSH', key('cmd', own:match('^%S+')), 'kill ' .. id .. ' ' .. at)
    end
  end
end
if changed > 0 then settle(id) end
return {changed, told, released}
"""

RETRY = r"""
-- id, range, states as a text of digits, ids that it is after in one text
-- -> how many wait again, and how many jobs they wait for
local id, lo, hi = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local about = redis.call('HMGET', key('job', id), 'ended', 'after_any', 'held')
if not about[2] then return {-1, 0} end
local states, held, total = {}, tonumber(about[3]), 0
for digit in ARGV[6]:gmatch('%d') do states[#states + 1] = tonumber(digit) end
if #states == 0
  or not redis.call('GETRANGE', key('st', id), lo, hi - 1):find((bytes_of(states))) then
  return {0, held}
end
if about[1] then
  -- it is after the others again, as they are now
  local open = {}
  for other in ARGV[7]:gmatch('%d+') do
    local said = redis.call('HMGET', key('job', other), 'ended', 'n2', 'count')
    if said[3] and not said[1] then open[#open + 1] = other
    elseif said[2] ~= said[3] and about[2] ~= '1' then
      return redis.error_reply('UNMET ' .. other)
    end
  end
  held = #open
  for _, other in ipairs(open) do redis.call('SADD', key('next', other), id) end
  redis.call('HSET', key('job', id), 'held', held)
end
for _, state in ipairs(states) do
  local pattern, tries_of = bytes_of({state})
  local changed = rewrite(id, lo, hi, pattern, tries_of, 0, false)
  count(id, state, 0, changed)
  total = total + changed
end
if total > 0 then
  note(id, lo, hi - 1, 'retried by hand')
  redis.call('HDEL', key('job', id), 'ended')
  redis.call('SADD', P .. 'open', id)
  for _, kind in ipairs(KINDS) do redis.call('PERSIST', key(kind, id)) end
end
return {total, held}
"""

JOIN = r"""
-- worker, its fields in JSON, its node -> its number
local worker = ARGV[3]
local number = redis.call('INCR', P .. 'worker_seq')
local flat = {'number', number, 'beats', 0, 'done', 0, 'joined', now}
for name, value in pairs(cjson.decode(ARGV[4])) do
  flat[#flat + 1] = name
  flat[#flat + 1] = value
end
redis.call('HSET', key('worker', worker), unpack(flat))
if ARGV[5] ~= '' and redis.call('EXISTS', key('closed', ARGV[5])) == 1 then
  redis.call('HSET', key('worker', worker), 'draining', '1')
  -- or it would take tickets and give them back, again and again
  redis.call('RPUSH', key('cmd', worker), 'drain')
end
redis.call('SADD', P .. 'workers', worker)
redis.call('HSET', P .. 'numbers', number, worker)
redis.call('HDEL', P .. 'numbers', number - 100000)
return number
"""

BEAT = r"""
-- worker -> 1, or 0 for one that was given up
if redis.call('SISMEMBER', P .. 'workers', ARGV[3]) == 0 then return 0 end
redis.call('HINCRBY', key('worker', ARGV[3]), 'beats', 1)
return 1
"""

TELL = r"""
-- worker, what it is told, 1 for nothing more is to begin there, 0 for again, or ''
-- -> 1, or 0 for one that has left: nobody would ever read it
local worker, draining = ARGV[3], ARGV[5]
if redis.call('SISMEMBER', P .. 'workers', worker) == 0 then return 0 end
if draining == '1' then redis.call('HSET', key('worker', worker), 'draining', '1')
elseif draining == '0' then redis.call('HDEL', key('worker', worker), 'draining') end
redis.call('RPUSH', key('cmd', worker), ARGV[4])
return 1
"""

LOSE = r"""
-- worker, the beats it was seen with or '' for any, why
-- -> for each element that waits again: id, element, end of its chunk; ids released
local worker, beats, why = ARGV[3], ARGV[4], ARGV[5]
if redis.call('SISMEMBER', P .. 'workers', worker) == 0 then return {{}, {}} end
if beats ~= '' and redis.call('HGET', key('worker', worker), 'beats') ~= beats then
  return {{}, {}}
end
local chunks = {}
for _, slot in ipairs(redis.call('HKEYS', key('run', worker))) do
  local run = running_in(worker, slot)
  leave(worker, slot, 4, why)
  chunks[#chunks + 1] = {run.id, run.at, run.hi}
end
redis.call('SREM', P .. 'workers', worker)
redis.call('DEL', key('worker', worker), key('run', worker), key('cmd', worker))
return {chunks, released}
"""

WORKERS = r"""
-- -> what `count` has; for each worker: its name, what it says of itself, what runs there
local found = {redis.call('HGETALL', P .. 'count')}
for _, name in ipairs(redis.call('SMEMBERS', P .. 'workers')) do
  local said, runs = key('worker', name), key('run', name)
  found[#found + 1] = {name, redis.call('HGETALL', said), redis.call('HVALS', runs)}
end
return found
"""


def _waiting() -> str:
    """The pattern that `bytes_of({0})` makes, as a literal: each script would make it anew."""
    found = ["%z"]
    for byte in range(8, 256, 8):
        letter = chr(byte)
        plain = letter.isascii() and letter.isalnum()
        found.append(letter if plain else f"%\\{byte:03d}")
    return f"'[{''.join(found)}]'"


PRELUDE = _PRELUDE.replace("@WAITING@", _waiting())

SCRIPTS = {
    "submit": SUBMIT,
    "step": STEP,
    "cancel": CANCEL,
    "retry": RETRY,
    "join": JOIN,
    "beat": BEAT,
    "tell": TELL,
    "lose": LOSE,
    "workers": WORKERS,
}
"""Each with the prelude before it is a whole script; ARGV begins with the prefix and the time."""
