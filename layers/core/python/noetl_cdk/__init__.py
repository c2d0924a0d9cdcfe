"""NoETL on AWS as constructs of the CDK: what a CDK app of your own imports.

    from noetl_cdk import NoetlEnvironment, environment

The modules are those of the folder `infra`; a wheel carries it, with all that a deployment needs, as `noetl_cdk/project`.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
PROJECT = _HERE / "project" if (_HERE / "project").is_dir() else _HERE.parents[3]
"""The folder with cdk.json and infra: of the wheel, or the checkout."""
__path__ = [str(PROJECT / "infra")]

from noetl_cdk.config import (  # noqa: E402 - the path of its modules is set first
    Access,
    AlarmsConfig,
    ApiConfig,
    BackupConfig,
    ConfigError,
    ContainersConfig,
    DatabaseConfig,
    Environment,
    ExistingVpc,
    FunctionConfig,
    NetworkConfig,
    RetentionConfig,
    StorageConfig,
    WorkersConfig,
)
from noetl_cdk.construct import NoetlEnvironment, environment  # noqa: E402
from noetl_cdk.idle_cost import report as idle_cost_of  # noqa: E402

__all__ = [
    "Access",
    "AlarmsConfig",
    "ApiConfig",
    "BackupConfig",
    "ConfigError",
    "ContainersConfig",
    "DatabaseConfig",
    "Environment",
    "ExistingVpc",
    "FunctionConfig",
    "NetworkConfig",
    "NoetlEnvironment",
    "RetentionConfig",
    "StorageConfig",
    "WorkersConfig",
    "environment",
    "idle_cost_of",
]
