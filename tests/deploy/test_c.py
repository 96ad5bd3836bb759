"""
The exported C acts as ``predict`` does. Every export checks itself, with the compiled code: here that is done for all kinds of
policies, and the check itself is checked.
"""

import platform
import re
import shutil
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import QRDQN, TQC, MaskablePPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize
from torch import nn

from sb3_span.deploy import export, export_c
from sb3_span.deploy.c_code import write_c
from sb3_span.deploy.compiled import CompiledPolicy
from sb3_span.deploy.observations import TOTAL, make_observations
from sb3_span.deploy.policy import DeterministicPolicy
from sb3_span.deploy.verify import verify
from sb3_span.policies.extractors import SPANFeaturesExtractor
from tests.deploy.models import lively
from tests.policies.envs import ACTIONS, OBSERVATIONS, RandomEnv
from tests.policies.models import ALGORITHMS, make_model, name

MLP = dict(policy="MlpPolicy", span_arch=None)


def check(model, folder, **kwargs):
    verification = export_c(model, folder, **kwargs)
    assert verification.observations == TOTAL
    assert str(verification) in re.sub(r"\s+(\*\s+)?", " ", (folder / "policy.h").read_text())
    return verification


@pytest.mark.parametrize("algo", [algo for algo in ALGORITHMS if algo.__name__ != "RecurrentPPO"], ids=name)
def test_every_algorithm(algo, tmp_path):
    discrete = algo in (DQN, QRDQN, MaskablePPO)
    verification = check(lively(algo, actions="discrete" if discrete else "box"), tmp_path)
    assert verification.discrete == discrete


@pytest.mark.parametrize("actions", ["discrete", "multidiscrete", "multibinary"])
def test_action_spaces(actions, tmp_path):
    check(lively(actions=actions), tmp_path)


@pytest.mark.parametrize("observations", ["float64", "matrix", "small image", "discrete", "multidiscrete", "multibinary"])
def test_observation_spaces(observations, tmp_path):
    check(lively(observations=observations), tmp_path)


@pytest.mark.parametrize(
    "span_arch",
    [
        *(dict(basis="bspline", degree=degree, nelems=2) for degree in (1, 2, 3, 5)),
        *(dict(preprocess=preprocess) for preprocess in ("layernorm", "batchnorm", "minmax", "none")),
        dict(latent_dim=7, nelems=9),
        dict(mode_norm=True),
        dict(pi=dict(nmodes=4), vf=dict(nmodes=2)),
    ],
    ids=str,
)
def test_networks(span_arch, tmp_path):
    check(lively(span_arch=span_arch, steps=32), tmp_path)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.9, -4.0, 40.0])
def test_bumps_of_any_width(scale, tmp_path):
    """None of the bumps beyond those that are evaluated is above zero."""
    model = lively(span_arch=dict(nelems=6))
    model.policy.mlp_extractor.pi_vf.scale.data[0, 1:] = scale
    check(model, tmp_path)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.ELU, nn.LeakyReLU, nn.SiLU, nn.Sigmoid], ids=name)
def test_mlps(activation, tmp_path):
    check(lively(SAC, policy_kwargs=dict(net_arch=[8, 5], activation_fn=activation), **MLP), tmp_path)


@pytest.mark.parametrize("algo", [PPO, TD3, TQC, DQN], ids=name)
def test_mlps_of_other_algorithms(algo, tmp_path):
    kwargs = dict(actions="discrete" if algo is DQN else "box", policy_kwargs=dict(net_arch=[8]), **MLP)
    check(lively(algo, **kwargs), tmp_path)


@pytest.mark.parametrize("algo, squash", [(PPO, True), (PPO, False), (SAC, True)], ids=name)
def test_gsde(algo, squash, tmp_path):
    policy_kwargs = dict(squash_output=squash) if algo is PPO else {}
    check(lively(algo, use_sde=True, policy_kwargs=policy_kwargs), tmp_path)


def test_features_extractor(tmp_path):
    options = dict(features_extractor_class=SPANFeaturesExtractor, features_extractor_kwargs=dict(span_arch=dict(nmodes=4)))
    check(lively(policy_kwargs=dict(net_arch=[5], **options), **MLP), tmp_path)


def test_vecnormalize_and_recorded_observations(tmp_path):
    """Means that are large next to the spread would lose their digits in single precision."""
    env = VecNormalize(make_vec_env("Pendulum-v1"), clip_obs=3.0)
    model = lively(SAC, env=env)
    env.obs_rms.mean[:] = [0.3, -0.1, 1234.56789]
    env.obs_rms.var[:] = [0.5, 0.4, 1e-2]
    verification = check(model, tmp_path)
    assert verification.recorded == TOTAL // 2
    assert "VecNormalize" in (tmp_path / "policy.h").read_text()
    assert "1234.56" in (tmp_path / "policy.c").read_text()


class Shifted(gym.ObservationWrapper):
    def observation(self, observation):
        return observation + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: VecFrameStack(make_vec_env("Pendulum-v1"), 3),
        lambda: VecNormalize(VecFrameStack(make_vec_env("Pendulum-v1"), 2)),
        lambda: make_vec_env("Pendulum-v1", wrapper_class=Shifted),
    ],
    ids=["stacked", "stacked and normalised", "wrapper"],
)
def test_environments_that_cannot_be_made_again(make, tmp_path):
    """Observations are random then."""
    assert check(lively(SAC, env=make()), tmp_path).recorded == 0
    with pytest.raises(ValueError, match=r"The agent observes Box.*, and CartPole-v1 gives Box"):
        export_c(lively(SAC, env=make()), tmp_path, env="CartPole-v1")


class Difficult(RandomEnv):
    """
    Of whose kind there is only one, like a device, or which refuses an action, like a game.

    :param only: Whether there may be no second one
    """

    made = 0

    def __init__(self, only):
        super().__init__(OBSERVATIONS["vector"], ACTIONS["discrete"])
        Difficult.made += 1
        self.only = only
        if only and Difficult.made > 1:
            raise RuntimeError("The device is busy")

    def step(self, action):
        if action == 1 and not self.only:
            raise RuntimeError("This move is not allowed")
        return super().step(action)


@pytest.mark.parametrize(
    "only, message", [(True, "cannot be made here: The device is busy"), (False, "with an error, RuntimeError: This move")]
)
def test_environments_that_nothing_can_be_recorded_from(only, message, tmp_path, monkeypatch):
    """Only who asks for their observations is told."""
    monkeypatch.setitem(gym.registry, "Difficult-v0", gym.envs.registration.EnvSpec("Difficult-v0", Difficult))
    monkeypatch.setattr(Difficult, "made", 0)
    env = gym.make("Difficult-v0", only=only)
    model = lively(env=env)
    assert check(model, tmp_path).recorded == 0
    with pytest.raises(ValueError, match=message):
        export_c(model, tmp_path, env=env.spec)


def test_processes_of_environments_survive(tmp_path, monkeypatch):
    """Not even what they cannot send is asked of them."""
    spec = gym.envs.registration.EnvSpec("Local-v0", lambda: RandomEnv(OBSERVATIONS["vector"], ACTIONS["box"]))
    monkeypatch.setitem(gym.registry, "Local-v0", spec)
    model = lively(env=SubprocVecEnv([lambda: gym.make("Local-v0")] * 2, start_method="fork"))
    assert check(model, tmp_path).recorded == 0
    model.env.reset()
    model.env.close()


def test_an_environment_of_other_actions(tmp_path):
    model = lively(env=RandomEnv(OBSERVATIONS["vector"], spaces.MultiDiscrete([5, 5])))
    fewer = gym.envs.registration.EnvSpec("Fewer-v0", lambda: RandomEnv(OBSERVATIONS["vector"], spaces.MultiDiscrete([2, 2])))
    with pytest.raises(ValueError, match=r"actions are MultiDiscrete.*, and Fewer-v0 takes MultiDiscrete\(\[2 2\]\)"):
        export_c(model, tmp_path, env=fewer)


def test_images_in_the_header(tmp_path, monkeypatch):
    """Channel first, as the policy sees them; of normalised ones the bounds are not known."""
    monkeypatch.setattr("sb3_span.deploy.observations.TOTAL", 1_000)
    env = RandomEnv(spaces.Box(0, 255, (4, 5, 3), np.uint8), ACTIONS["box"])
    export_c(lively(env=env), tmp_path)
    header = " ".join((tmp_path / "policy.h").read_text().replace("*", " ").split())
    assert "60 floats: [0..59] 0 to 255, in the units of the environment's own, channel first: shape (3, 4, 5), row" in header
    export_c(lively(env=VecNormalize(DummyVecEnv([lambda: env]))), tmp_path)
    header = " ".join((tmp_path / "policy.h").read_text().replace("*", " ").split())
    assert "60 floats: [0..59] any, in the order and units of the environment's own of shape (4, 5, 3), row by row" in header


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize(
    "actions", [spaces.MultiDiscrete([1, 3]), spaces.Box(np.array([-1, 2], np.float32), np.array([1, 2], np.float32))], ids=str
)
def test_actions_without_a_choice(actions, int8, tmp_path):
    check(lively(env=RandomEnv(OBSERVATIONS["vector"], actions)), tmp_path, int8=int8)


def test_bounds_that_are_none(tmp_path):
    space = spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (3,), np.int64)
    check(make_model(PPO, RandomEnv(space, ACTIONS["box"]), learn=False), tmp_path)
    check(lively(SAC, env=VecNormalize(make_vec_env("Pendulum-v1"), clip_obs=np.inf)), tmp_path)


@pytest.mark.filterwarnings("ignore:Observations may be as large as")
def test_no_closer_to_predict_than_predict_to_itself(tmp_path):
    """Large observations lose digits of single precision, in predict as in the export."""
    env = RandomEnv(spaces.Box(-5000, 5000, (6,)), spaces.Box(-1, 1, (2,)))
    model = make_model(PPO, env, learn=False, span_arch=dict(nmodes=10, nelems=8, slope=8.0))
    check(model, tmp_path)
    policy = DeterministicPolicy(model)
    exact, seen = policy.in_double_precision(), np.random.default_rng(0).uniform(-1, 1, (50, 6)).astype(np.float32)
    np.testing.assert_allclose(exact(seen), policy.predict(seen), atol=1e-5)


def test_several_policies_in_one_program(tmp_path):
    export_c(lively(), tmp_path / "third", name="POLICY_3")
    assert "int POLICY_3_act(" in (tmp_path / "third" / "POLICY_3.h").read_text()
    shutil.rmtree(tmp_path / "third")
    for word, actions in (("left", "discrete"), ("Right_2", "box")):
        export_c(lively(actions=actions), tmp_path, name=word)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Right_2.c", "Right_2.h", "left.c", "left.h"]
    program = """
        #include "left.h"
        #include "Right_2.h"
        int main(void) {
            float observation[LEFT_OBSERVATION_SIZE] = {0}, action[RIGHT_2_ACTION_SIZE], scores[LEFT_SCORES_SIZE];
            int32_t choice[LEFT_ACTION_SIZE];
            left_act(observation, choice);
            left_scores(observation, scores);
            Right_2_act(observation, action);
            return 0;
        }"""
    (tmp_path / "main.c").write_text(program)
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "left.c", "Right_2.c", "-lm", "-o", "main"]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_a_compiler_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "gcc -DX=1")
    check(lively(), tmp_path)
    monkeypatch.setenv("CC", "nocompiler -O3")
    with pytest.raises(ValueError, match="CC is 'nocompiler -O3', and there is no 'nocompiler' here"):
        check(lively(), tmp_path)


def test_export_needs_no_yaml():
    """Which comes with extras that it does without."""
    script = "import sys; sys.modules['yaml'] = None; import sb3_span.deploy"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_wrong_code_is_noticed_and_not_written(tmp_path, monkeypatch):
    correct = export.write_c

    def wrong(*args):
        files = correct(*args)
        return {**files, "policy.c": files["policy.c"].replace("0.5f * (", "0.5001f * (")}

    monkeypatch.setattr(export, "write_c", wrong)
    with pytest.raises(ValueError, match="does not act as predict"):
        export_c(lively(SAC), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("actions", ["box", "discrete"])
def test_wrong_actions_are_noticed(actions):
    policy = DeterministicPolicy(lively(actions=actions))

    def act(observation):
        chosen = policy.predict(observation)
        return np.full_like(chosen, np.nan) if actions == "box" else 1 - chosen

    with pytest.raises(ValueError, match="does not act as predict"):
        verify(policy, act, make_observations(policy, None), "This")


def test_not_finite(tmp_path):
    model = lively()
    model.policy.action_net.weight.data[0, 0] = np.nan
    with pytest.raises(ValueError, match="weight that is not finite"):
        export_c(model, tmp_path)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("algo, actions", [(SAC, "box"), (PPO, "multidiscrete")], ids=name)
def test_clean_self_contained_and_without_heap(compiler, algo, actions, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    export_c(lively(algo, actions=actions), tmp_path)
    source = (tmp_path / "policy.c").read_text()
    assert set(re.findall(r"#include (.*)", source + (tmp_path / "policy.h").read_text())) <= {'"policy.h"', "<stdint.h>"}
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wunused-function", "-Wdouble-promotion", "-O2"]
    subprocess.run([compiler, *strict, "-c", "policy.c"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "policy.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    kinds = {line.split()[-1]: line.split()[-2] for line in symbols.splitlines()}
    # Nothing from outside but what the compiler may want for copying, no memory that is written to.
    assert {symbol for symbol, kind in kinds.items() if kind == "U"} <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}
    assert not set(kinds.values()) & set("bBdDC")


@pytest.mark.parametrize("algo, part", [(SAC, "actor"), (TD3, "actor"), (DQN, "q_net"), (QRDQN, "quantile_net")], ids=name)
def test_a_network_alone(algo, part, tmp_path):
    """What the guide saves alone is exported alone: each export is compared with predict."""
    model = lively(algo, actions="box" if part == "actor" else "discrete")
    assert export_c(getattr(model, part), tmp_path).largest <= 1e-4


def test_statistics_inside_a_wrapper(tmp_path):
    env = VecFrameStack(VecNormalize(make_vec_env("Pendulum-v1")), 2)
    with pytest.raises(ValueError, match=r"VecNormalize\(VecFrameStack\(env, 4\)\)"):
        export_c(PPO("SPANPolicy", env), tmp_path)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86's instructions")
def test_nothing_is_fused(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    export_c(lively(), tmp_path)
    command = [compiler, "-std=c99", "-O2", "-mfma", "-S", "policy.c", "-o", "-"]
    assembly = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "mulss" in assembly and "fmadd" not in assembly


def test_a_nan_does_not_run_out_of_the_tables(tmp_path):
    """What comes out is a NaN, as from predict, and not what lies in memory elsewhere; likewise for the infinite."""
    policy = DeterministicPolicy(lively(TD3))

    strange = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [0, -np.inf, 1e30]], np.float32)
    with CompiledPolicy(policy, write_c(policy, "")) as compiled:
        actions = compiled(strange)
    np.testing.assert_allclose(actions, policy.predict(strange), atol=1e-5)
    assert np.isnan(actions[0]).all()


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("mlp", [False, True], ids=["span", "mlp"])
@pytest.mark.parametrize("actions", ["discrete", "multidiscrete", "multibinary", "box"])
def test_an_observation_that_is_not_a_number(actions, mlp, int8, tmp_path):
    """An error code, and the action is left as it was; the scores tell too."""
    kwargs = dict(policy="MlpPolicy", policy_kwargs=dict(net_arch=[6]), span_arch=None) if mlp else {}
    export_c(lively(actions=actions, **kwargs), tmp_path, int8=int8)
    header = (tmp_path / "policy.h").read_text()
    assert "Returns:" in header and "the action is left as it was" in " ".join(header.replace("*", " ").split())
    kind = "float" if actions == "box" else "int32_t"
    scores = "" if actions == "box" else "float s[POLICY_SCORES_SIZE]; if (!policy_scores(o, s)) return 10;"
    program = f"""
        #include <math.h>
        #include "policy.h"
        int main(void) {{
            float o[POLICY_OBSERVATION_SIZE] = {{0}};
            {kind} a[POLICY_ACTION_SIZE];
            for (int i = 0; i < POLICY_ACTION_SIZE; i++) a[i] = 77;
            if (policy_act(o, a) != POLICY_OK) return 1;
            for (int i = 0; i < POLICY_ACTION_SIZE; i++) if (a[i] == 77) return 2; else a[i] = 77;
            for (int k = 0; k < POLICY_OBSERVATION_SIZE; k++) {{
                o[k] = NAN;
                if (policy_act(o, a) != POLICY_NOT_A_NUMBER) return 3;
                for (int i = 0; i < POLICY_ACTION_SIZE; i++) if (a[i] != 77) return 4;
                {scores}
                o[k] = 0;
            }}
            return 0;
        }}"""
    (tmp_path / "main.c").write_text(program)
    subprocess.run(["gcc", "-std=c99", "-O2", "main.c", "policy.c", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_scores_for_those_who_mask(tmp_path):
    """``policy_scores`` is what ``policy_act`` decides by."""
    model = lively(MaskablePPO, actions="discrete")
    export_c(model, tmp_path)
    observation = np.array([0.3, -0.2, 0.9], np.float32)
    main = '#include <stdio.h>\n#include "policy.h"\nint main(void) { float o[] = {0.3f, -0.2f, 0.9f}, s[POLICY_SCORES_SIZE];'
    main += 'policy_scores(o, s); for (int i = 0; i < POLICY_SCORES_SIZE; i++) printf("%.7g ", s[i]); return 0; }'
    (tmp_path / "main.c").write_text(main)
    subprocess.run(["cc", "-std=c99", "main.c", "policy.c", "-o", "main"], cwd=tmp_path, check=True)
    out = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    distribution = model.policy.get_distribution(th.as_tensor(observation[None]))
    expected = distribution.distribution.logits[0].detach().numpy()
    scores = np.array(out.split(), float)
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], atol=1e-5)


@pytest.mark.parametrize("algo, arch", [(SAC, {}), (PPO, dict(basis="bspline", degree=3)), (PPO, None)], ids=str)
def test_weights_in_bytes(algo, arch, tmp_path):
    """A quarter of the size, an error that is small, and said."""
    mlp = dict(policy="MlpPolicy", policy_kwargs=dict(net_arch=[12, 12]))
    kwargs = dict(span_arch=arch, **(mlp if arch is None else {}))
    export_c(lively(algo, **kwargs), tmp_path / "float")
    verification = check(lively(algo, **kwargs), tmp_path / "int8", int8=True)
    assert 1e-5 < verification.largest < 0.05
    constants = [
        int(re.search(r"([\d,]+) bytes of constants", (tmp_path / kind / "policy.h").read_text())[1].replace(",", ""))
        for kind in ("int8", "float")
    ]
    assert constants[0] < 0.6 * constants[1]
