"""The layers of one stack's functions.

Each stack makes its own versions of the same folders: a layer's ARN changes with its content, and CloudFormation refuses to
change what another stack imports.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from ..config import Environment
from ..layer_build import Target, archive_of, build_layer, digest_of

RUNTIMES = {
    "3.11": lambda_.Runtime.PYTHON_3_11,
    "3.12": lambda_.Runtime.PYTHON_3_12,
    "3.13": lambda_.Runtime.PYTHON_3_13,
    "3.14": lambda_.Runtime.PYTHON_3_14,
}


def target_of(env: Environment) -> Target:
    """What this environment's functions run on."""
    return Target(env.python, env.arch, host=env.is_local)


class Layers(Construct):
    """Layer versions by name, made when they are first asked for."""

    def __init__(self, scope: Construct, id: str, *, env: Environment) -> None:
        super().__init__(scope, id)
        self._env = env
        self._made: dict[str, lambda_.LayerVersion] = {}

    def get(self, *extra: str) -> list[lambda_.ILayerVersion]:
        """`core` and `deps`, and the ones named. Raises LayerError when one cannot be built."""
        return [self._layer(name) for name in ("core", "deps", *extra)]

    def _layer(self, name: str) -> lambda_.LayerVersion:
        if name not in self._made:
            folder = build_layer(name, target_of(self._env))
            self._made[name] = lambda_.LayerVersion(
                self,
                name.capitalize(),
                layer_version_name=f"{self._env.prefix}-{name}",
                description=f"noetl: {name}",
                code=lambda_.Code.from_asset(
                    str(archive_of(folder)),
                    asset_hash=digest_of(folder),
                    asset_hash_type=cdk.AssetHashType.CUSTOM,
                ),
                compatible_runtimes=[RUNTIMES[self._env.python]],
                compatible_architectures=[architecture(self._env)],
            )
        return self._made[name]


def architecture(env: Environment) -> lambda_.Architecture:
    """As Lambda names it."""
    return lambda_.Architecture.ARM_64 if env.arch == "arm64" else lambda_.Architecture.X86_64
