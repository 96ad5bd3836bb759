"""The class ``SPANPolicy`` is every algorithm's own SPAN policy, and those without one say so."""

import numpy as np
import pytest
from sb3_contrib import ARS, CrossQ

import sb3_span
from sb3_span import SPANPolicy
from sb3_span.policies.registry import policy_for
from tests.policies.envs import make
from tests.policies.models import ALGORITHMS, action_spaces, make_model, name, observations


@pytest.mark.parametrize("algo", ALGORITHMS, ids=name)
def test_the_class_is_the_algorithms_own(algo, tmp_path):
    model = make_model(algo, make("vector", action_spaces(algo)[0]), policy=SPANPolicy)
    assert type(model.policy) is model.policy_class is policy_for(algo)
    model.save(tmp_path / "model.zip")
    loaded = algo.load(tmp_path / "model.zip", device="cpu")
    assert type(loaded.policy) is policy_for(algo)
    seen = observations(model)
    np.testing.assert_array_equal(*(each.predict(seen, deterministic=True)[0] for each in (model, loaded)))


@pytest.mark.parametrize("algo", [sb3_span.PPO, sb3_span.SAC], ids=name)
def test_in_our_own_algorithms(algo):
    assert type(algo(SPANPolicy, make("vector", "box"), device="cpu").policy) is policy_for(algo)


@pytest.mark.parametrize("policy", ["SPANPolicy", SPANPolicy], ids=["string", "class"])
@pytest.mark.parametrize("algo", [CrossQ, ARS], ids=name)
def test_algorithms_without_one(algo, policy):
    with pytest.raises(ValueError, match=r"There is no SPAN policy for this algorithm: CrossQ .*SPANFeaturesExtractor"):
        algo(policy, make("vector", "box"))
