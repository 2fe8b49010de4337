"""A node's memory: an open-addressing hash table from a message's state to one word.

Linear probing, grows by doubling, deletes by shifting back (no tombstones), so it stays as fast at the millionth state as
at the first. Only the node's own worker touches it, so there are no locks. An entry is 48 bytes: state, value, hash.
The three words `entries`, `mask`, `used` stand in the node's record.
"""

from .atomics import c_free, load, store
from .memory import helper, plain_memory
from .message import MESSAGE, STATE
from .records import NODE

ENTRY, VALUE, HASH = 48, 32, 40
SMALLEST = 16


@helper
def hash_state(state):
    """Mix the four words of a state; the lowest bit is set, so that 0 marks a free entry."""
    h = (load(state) * 0x1E3779B97F4A7C15 + load(state + 8) * 0x3F58476D1CE4E5B9
         + load(state + 16) * 0x14D049BB133111EB + load(state + 24) * 0x2545F4914F6CDD1D)
    h = (h ^ (h >> 32)) * 0x1E3779B97F4A7C15
    return (h ^ (h >> 29)) | 1


@helper
def same_state(a, b):
    """Whether two states are equal, word by word."""
    return (load(a) == load(b) and load(a + 8) == load(b + 8)
            and load(a + 16) == load(b + 16) and load(a + 24) == load(b + 24))


@helper
def _home(h, mask):
    return (h >> 1) & mask


@helper
def _find(node, state, h):
    """The entry of a state, or the free entry where it belongs."""
    n = NODE(node)
    at = _home(h, n.mask)
    while True:
        entry = n.entries + ENTRY * at
        found = load(entry + HASH)
        if found == 0 or (found == h and same_state(entry, state)):
            return entry
        at = (at + 1) & n.mask


@helper
def _write(entry, state, value, h):
    for i in range(4):
        store(entry + 8 * i, load(state + 8 * i))
    store(entry + VALUE, value)
    store(entry + HASH, h)


@helper
def _grow(node):
    n = NODE(node)
    old, capacity = n.entries, (n.mask + 1 if n.entries != 0 else 0)
    larger = max(SMALLEST, 2 * capacity)
    n.entries = plain_memory(larger * ENTRY)
    n.mask = larger - 1
    for i in range(larger):
        store(n.entries + ENTRY * i + HASH, 0)
    for i in range(capacity):
        entry = old + ENTRY * i
        h = load(entry + HASH)
        if h != 0:
            _write(_find(node, entry, h), entry, load(entry + VALUE), h)
    if old != 0:
        c_free(old)


@helper
def _insert(node, entry, state, value, h):
    """Write into a free entry that `_find` gave."""
    _write(entry, state, value, h)
    NODE(node).used += 1


@helper
def remove(node, entry):
    """Free an entry that was just found: those behind it move up, as long as that brings them nearer to their home."""
    n = NODE(node)
    n.used -= 1
    hole = (entry - n.entries) // ENTRY
    at = hole
    while True:
        at = (at + 1) & n.mask
        entry = n.entries + ENTRY * at
        h = load(entry + HASH)
        if h == 0:
            break
        if ((at - _home(h, n.mask)) & n.mask) >= ((at - hole) & n.mask):
            _write(n.entries + ENTRY * hole, entry, load(entry + VALUE), h)
            hole = at
    store(n.entries + ENTRY * hole + HASH, 0)


@helper
def _make_room(node):
    n = NODE(node)
    if n.entries == 0 or 4 * (n.used + 1) > 3 * (n.mask + 1):
        _grow(node)


@helper
def put(node, message, value):
    """Store a word (not 0) under a message's state; False when that state is there already."""
    _make_room(node)
    state = message + STATE
    h = hash_state(state)
    entry = _find(node, state, h)
    if load(entry + HASH) != 0:
        return False
    _insert(node, entry, state, value, h)
    return True


@helper
def get(node, message):
    """The word under a message's state, 0 when there is none."""
    if NODE(node).used == 0:
        return 0
    state = message + STATE
    entry = _find(node, state, hash_state(state))
    return load(entry + VALUE) if load(entry + HASH) != 0 else 0


@helper
def take(node, message):
    """Remove and return the word under a message's state, 0 when there is none."""
    if NODE(node).used == 0:
        return 0
    state = message + STATE
    entry = _find(node, state, hash_state(state))
    if load(entry + HASH) == 0:
        return 0
    value = load(entry + VALUE)
    remove(node, entry)
    return value


@helper
def get_or_put(node, message, value):
    """`get` where the state is there, else `put` (and 0), in one search; and the entry, for `replace` or `remove`."""
    _make_room(node)
    state = message + STATE
    h = hash_state(state)
    entry = _find(node, state, h)
    if load(entry + HASH) == 0:
        _insert(node, entry, state, value, h)
        return 0, entry
    return load(entry + VALUE), entry


@helper
def replace(entry, value):
    """Another word in an entry that was just found."""
    store(entry + VALUE, value)


@helper
def clear(node):
    """Forget everything and give the table's memory back; messages that were kept are not freed."""
    n = NODE(node)
    if n.entries == 0:
        return
    c_free(n.entries)
    n.entries = 0
    n.mask = 0
    n.used = 0


@helper
def keep(worker, node, message, version):
    """Keep a message (and what hangs on it) until its gradient comes; False when its state is there already."""
    MESSAGE(message).version = version
    return put(node, message, message)
