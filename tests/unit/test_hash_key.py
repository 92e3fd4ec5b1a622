"""The hash of keys: fixed for ever, since state and the order of results depend on it, and evenly spread."""

import pytest

import stretch as st
from stretch.windows.groups import GROUP_COUNT, hash_key

# A change of any of these moves keys of saved state to other groups: it would need a new version of the state.
KNOWN = {
    None: 0xE220A8397B1DCDAF,
    0: 0xE220A8397B1DCDAF,
    1: 0x910A2DEC89025CC1,
    -1: 0xE4D971771B652C20,
    42: 0xBDD732262FEB6E95,
    4611686018427387904: 0x00AA50EA8E0FA9EB,
    -9223372036854775808: 0x481EC0A212A9F3DB,
    "": 0x0000000000000000,
    "a": 0xB8AE4CE910B95652,
    "hello": 0x287BB6286862EA82,
    "hello world": 0xD3FF0114DB1FB967,
    "åäö": 0xD4CCD391CF66F7C3,
    "12345678": 0x98CC7719AB69135B,
    "123456789": 0xD76370D5EB44BEE8,
    (): 0x0000000000000000,
    (1,): 0xDDC1ED05282D1D64,
    ("a", "b"): 0x6255985A91879001,
    ("a", 1): 0x0891ECCA59E0DD34,
    (None, "a"): 0x85BEE2B2BDE2E18A,
    (1, (2, "x")): 0xE61F8A3666893339,
}


@pytest.mark.parametrize("key", KNOWN, ids=repr)
def test_known_values(key):
    assert hash_key(key) == KNOWN[key]


def test_keys_that_look_alike_do_not_collide():
    keys = [
        0,
        1,
        -1,
        "",
        "0",
        "1",
        "\0",
        "\0\0",
        "a",
        "a\0",
        "aaaaaaaa",
        "aaaaaaaa\0",
        (0,),
        ("a", "b"),
        ("ab",),
        (("a",), "b"),
    ]
    assert len({hash_key(key) for key in keys}) == len(keys)


def test_the_order_of_parts_matters():
    assert hash_key(("a", "b")) != hash_key(("b", "a"))
    assert hash_key((1, 2)) != hash_key((2, 1))


def test_true_is_one():
    assert hash_key(True) == hash_key(1)
    assert hash_key(False) == hash_key(0)


def test_ints_are_machine_words():
    assert hash_key(-1) == hash_key(2**64 - 1)


def test_every_text_can_be_a_key():
    assert hash_key("\ud800") != hash_key("\ud801")


@pytest.mark.parametrize("key", [1.5, b"bytes", ["list"], frozenset(), (1, 2.5)])
def test_other_kinds_of_keys_are_refused(key):
    with pytest.raises(st.FunctionError, match="cannot be a key"):
        hash_key(key)


MANY = 64 * GROUP_COUNT
KEYS = {
    "small ints": range(MANY),
    "multiples of the number of groups": range(0, MANY * GROUP_COUNT, GROUP_COUNT),
    "timestamps": range(1_538_352_000_000_000, 1_538_352_000_000_000 + MANY * 1_000_000, 1_000_000),
    "words": [f"word{n}" for n in range(MANY)],
    "long texts with one prefix": [f"https://example.org/a/long/path?id={n}" for n in range(MANY)],
    "pairs of ints": [(n % 256, n // 256) for n in range(MANY)],
    "pairs of words": [(f"w{n % 256}", f"w{n // 256}") for n in range(MANY)],
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_groups_are_evenly_filled(keys):
    sizes = [0] * GROUP_COUNT
    for key in keys:
        sizes[hash_key(key) % GROUP_COUNT] += 1
    mean = MANY / GROUP_COUNT
    chi_square = sum((size - mean) ** 2 for size in sizes) / mean
    # A fair deal gives about GROUP_COUNT, with a standard deviation of about 45.
    assert abs(chi_square - GROUP_COUNT) < 6 * 45
