import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.kernels.dropout import STEP, drop, mix
from tests import naive

KEYS = [0, 1, 0x9E3779B97F4A7C15, 2**63 - 1, 2**63, 2**64 - 1]
RATES = [0.1, 0.3, 0.5, 0.9]
MANY = 100_001
ANY_WORD = st.integers(0, 2**64 - 1)


def dropped(values, key, rate):
    """A copy of the values after the kernel."""
    values = np.array(values, np.float32)
    drop(values, np.uint64(key), rate)
    return values


def kept(count, key, rate):
    """True where the kernel keeps an element."""
    return dropped(np.ones(count), key, rate) != 0


@settings(max_examples=200, deadline=None)
@given(ANY_WORD)
def test_mix_equals_the_twin_in_integers(word):
    assert int(mix(np.uint64(word))) == naive.mix(word)


def test_mix_gives_the_numbers_published_for_splitmix64():
    known = {0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F],
             1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]}
    for seed, numbers in known.items():
        states = [(seed + (i + 1) * int(STEP)) % 2**64 for i in range(len(numbers))]
        assert [int(mix(np.uint64(state))) for state in states] == numbers
        assert [naive.mix(state) for state in states] == numbers


def unshift(word, by):
    """The inverse of word ^ word >> by."""
    result = word
    for _ in range(64 // by):
        result = word ^ result >> by
    return result


@settings(max_examples=200, deadline=None)
@given(ANY_WORD)
def test_mix_can_be_undone(word):
    back = unshift(word, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    back = unshift(back, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    assert int(mix(np.uint64(unshift(back, 30)))) == word


def test_one_bit_of_a_word_changes_half_the_bits_of_its_mix():
    flips = [bin(int(mix(np.uint64(word))) ^ int(mix(np.uint64(word ^ 1 << bit)))).count("1")
             for word in range(100) for bit in range(64)]
    assert np.mean(flips) == pytest.approx(32, abs=4 * 4 / np.sqrt(len(flips)))
    assert min(flips) > 8


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 150, 1001])
@pytest.mark.parametrize("rate", [0.0, *RATES])
def test_drop_equals_the_twin(count, rate):
    values = np.random.default_rng(count).normal(size=count).astype(np.float32)
    for key in KEYS:
        got = dropped(values, key, rate)
        np.testing.assert_allclose(got, naive.drop(values.astype(np.float64), key, rate), rtol=1e-6)
        assert np.array_equal(got != 0, naive.survivors(count, key, rate))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 200), ANY_WORD, st.floats(0, 0.999))
def test_drop_equals_the_twin_for_any_length_key_and_rate(count, key, rate):
    values = np.random.default_rng(count).normal(size=count).astype(np.float32)
    np.testing.assert_allclose(dropped(values, key, rate), naive.drop(values.astype(np.float64), key, rate), rtol=1e-6)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("count", [150, MANY])
def test_the_same_key_gives_the_same_mask_and_another_key_another(count, rate):
    masks = [kept(count, key, rate) for key in KEYS]
    for key, mask in zip(KEYS, masks, strict=True):
        assert np.array_equal(mask, kept(count, key, rate))
    for i in range(len(KEYS)):
        assert not any(np.array_equal(masks[i], other) for other in masks[:i])


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("key", [3, 2**40 + 5, 2**64 - 7])
def test_the_share_of_zeros_is_the_rate_at_even_and_odd_places(rate, key):
    mask = kept(MANY, key, rate)
    for part in (mask, mask[0::2], mask[1::2]):
        assert abs(np.mean(~part) - rate) < 4 * np.sqrt(rate * (1 - rate) / len(part))


@pytest.mark.parametrize("rate", RATES)
def test_survivors_are_scaled_so_that_the_mean_stays(rate):
    values = np.random.default_rng(0).uniform(1, 2, MANY).astype(np.float32)
    got = dropped(values, 11, rate)
    mask = got != 0
    assert 0 < mask.sum() < MANY
    np.testing.assert_allclose(got[mask], values[mask].astype(np.float64) / (1 - rate), rtol=2e-7)
    error = np.sqrt(np.mean(values.astype(np.float64) ** 2) * rate / (1 - rate) / MANY)
    assert abs(got.astype(np.float64).mean() - values.astype(np.float64).mean()) < 4 * error


def test_rate_0_changes_nothing():
    values = np.random.default_rng(0).normal(size=1001).astype(np.float32)
    values[:4] = np.nan, np.inf, -np.inf, -0.0
    for key in KEYS:
        got = dropped(values, key, 0.0)
        assert np.array_equal(got.view(np.int32), values.view(np.int32))


@pytest.mark.parametrize("rate", RATES)
def test_a_longer_array_begins_with_the_mask_of_a_shorter(rate):
    mask = kept(33, 5, rate)
    for count in range(33):
        assert np.array_equal(kept(count, 5, rate), mask[:count])


@pytest.mark.parametrize("count", [1, 7, 33])
def test_an_odd_length_is_not_overrun(count):
    values = np.ones(count + 1, np.float32)
    drop(values[:count], np.uint64(1), 0.5)
    assert values[count] == 1
    assert np.array_equal(values[:count] != 0, naive.survivors(count, 1, 0.5))


@pytest.mark.parametrize("rate", RATES)
def test_a_higher_rate_drops_what_a_lower_one_does(rate):
    assert not (kept(MANY, 8, 0.95) & ~kept(MANY, 8, rate)).any()


def correlation(a, b):
    return abs(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("key", [0, 12345, 2**63])
def test_masks_of_neighbouring_keys_are_not_correlated(rate, key):
    mask = kept(MANY, key, rate)
    for other in (key + 1, key + 2, key ^ 1 << 20, key ^ 1 << 40, key ^ 1 << 62):
        assert correlation(mask, kept(MANY, other, rate)) < 4 / np.sqrt(MANY)


@pytest.mark.parametrize("rate", RATES)
def test_neighbouring_elements_are_not_correlated(rate):
    mask = kept(MANY, 77, rate)
    for lag in (1, 2, 3, 150):
        assert correlation(mask[lag:], mask[:-lag]) < 4 / np.sqrt(MANY - lag)
    assert correlation(mask[0:-1:2], mask[1::2]) < 4 / np.sqrt(MANY // 2)


@pytest.mark.parametrize("count", [1, 2, 7, 8])
@pytest.mark.parametrize("rate", [0.0, *RATES])
def test_the_same_call_on_a_gradient_is_the_backward_pass(count, rate):
    rng = np.random.default_rng(count)
    x, d = rng.normal(size=count), rng.normal(size=count).astype(np.float32)
    expected = naive.finite_difference(lambda v: (naive.drop(v, 21, rate) * d).sum(), x)
    np.testing.assert_allclose(dropped(d, 21, rate), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rate", [0.0, *RATES])
def test_a_nan_stays_even_where_it_is_dropped_and_spreads_no_further(rate):
    mask = kept(101, 9, rate)
    assert mask.any() and mask.all() == (rate == 0)
    for at in range(101):
        values = np.ones(101, np.float32)
        values[at] = np.nan
        got = dropped(values, 9, rate)
        assert np.isnan(got[at]) and np.isnan(got).sum() == 1
        assert np.array_equal(np.delete(got, at) != 0, np.delete(mask, at))


def test_a_dropped_infinity_becomes_nan_and_a_kept_one_stays():
    for value in (np.inf, -np.inf):
        mask, got = kept(33, 9, 0.5), dropped(np.full(33, value), 9, 0.5)
        assert np.isnan(got[~mask]).all() and (got[mask] == value).all()
