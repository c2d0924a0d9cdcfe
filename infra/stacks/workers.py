"""Workers: one deployment per worker of the plan.

Which there are, the registry of kinds says.
"""

from __future__ import annotations

from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from ..config import ConfigError
from ..constructs.jobs import Jobs
from ..constructs.kind_worker import FargateWorker, FunctionWorker
from ..constructs.layers import Layers
from ..constructs.rest_api import ApiDoor
from ..shared import Platform
from ..stacks import StackArguments
from ..workers import Worker


class WorkersStack(cdk.Stack):
    """``functions`` and ``services`` by worker."""

    def __init__(
        self, scope: Construct, id: str, *, platform: Platform, api: ApiDoor, **stack: Unpack[StackArguments]
    ) -> None:
        super().__init__(scope, id, **stack)
        self._platform = platform
        self._api = api
        self._cluster: ecs.Cluster | None = None
        self._image: ecs.ContainerImage | None = None
        layers = Layers(self, "Layers", env=platform.config)
        self.jobs = Jobs(self, "Jobs", platform=platform) if platform.config.containers else None
        self.functions: dict[str, FunctionWorker] = {}
        self.services: dict[str, FargateWorker] = {}
        for worker in platform.plan.workers:
            if worker.compute == "fargate":
                self.services[worker.name] = self._fargate(worker)
            else:
                self.functions[worker.name] = FunctionWorker(
                    self,
                    worker.name,
                    platform=platform,
                    worker=worker,
                    queue=platform.messaging.commands[worker.name],
                    layers=layers,
                    api=api,
                    jobs=self.jobs if "container" in worker.kinds else None,
                )

    def _fargate(self, worker: Worker) -> FargateWorker:
        return FargateWorker(
            self,
            worker.name,
            platform=self._platform,
            worker=worker,
            queue=self._platform.messaging.commands[worker.name],
            cluster=self._get_cluster(worker),
            image=self._get_image(),
            api=self._api,
        )

    def _get_cluster(self, worker: Worker) -> ecs.Cluster:
        if self._cluster is None:
            if self._platform.vpc is None:
                raise ConfigError(
                    f"the worker {worker.name!r} is a Fargate service, which needs a network (database engine url has none)"
                )
            self._cluster = ecs.Cluster(
                self,
                "Cluster",
                cluster_name=self._platform.config.prefix,
                vpc=self._platform.vpc,
                container_insights_v2=ecs.ContainerInsights.ENABLED,
            )
        return self._cluster

    def _get_image(self) -> ecs.ContainerImage:
        """Return the worker's image: by its name, or from a repository that this stack makes.

        A person pushes the image to that repository: synthesis needs no Docker.
        """
        if self._image is None:
            config = self._platform.config.workers
            if config.image:
                self._image = ecs.ContainerImage.from_registry(config.image)
            else:
                repository = ecr.Repository(
                    self,
                    "Images",
                    repository_name=f"{self._platform.config.prefix}-worker",
                    image_scan_on_push=True,
                    encryption=ecr.RepositoryEncryption.KMS,
                    lifecycle_rules=[ecr.LifecycleRule(max_image_count=20)],
                )
                cdk.CfnOutput(self, "WorkerImages", value=repository.repository_uri)
                self._image = ecs.ContainerImage.from_ecr_repository(repository, config.image_tag)
        return self._image
