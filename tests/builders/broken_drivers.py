"""Drivers that each break one promise, as integrations have done it, with the check that is to
notice and what it says."""

from collections.abc import Set
from typing import Any

from builders.memory_scheduler import SLOTS, Entry, MemoryDriver, host_of
from hpc.autoscale import clock
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.node.node import Node
from hpc.autoscale.results.verdicts import Verdict


class EndsWithABadJob(MemoryDriver):
    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        if any(tasks < 0 for tasks in self.scheduler.nonsense):
            raise ValueError("line 2 of the queue: expected a number of tasks, found -4")
        return super()._read_jobs_and_nodes(config)


class LeavesOutBadJobs(MemoryDriver):
    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs, nodes = super()._read_jobs_and_nodes(config)
        return [job for job in jobs if not isinstance(job, UnusableJob)], nodes


class ReturnsNoConfig(MemoryDriver):
    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        super().preprocess_config(config)
        return None  # type: ignore[return-value]


class HandsOverAnOldAnswer(MemoryDriver):
    def reading_stamp(self) -> object | None:
        return "the answer of 12:00"


class CountsQueues(MemoryDriver):
    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs, nodes = super()._read_jobs_and_nodes(config)
        return [Job(job.name, {"ncpus": 1}) for job in jobs], nodes


class CountsRunningTasks(MemoryDriver):
    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        _, nodes = super()._read_jobs_and_nodes(config)
        running = sum(entry.running for entry in self.scheduler.entries.values())
        total = running + self.scheduler.waiting
        return [Job("queue", {"ncpus": 1}, iterations=total)] if total else [], nodes


class TakesNothingOff(MemoryDriver):
    def reported(self, hostname: str, entry: Entry) -> SchedulerNode:
        node = super().reported(hostname, entry)
        node.available["ncpus"] = SLOTS
        return node


class DrainsWhileReading(MemoryDriver):
    idle_since: float | None = None

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        busy = self.scheduler.waiting > 0 or any(e.running for e in self.scheduler.ask().values())
        now = clock.time()
        since = self.idle_since or now
        self.idle_since = None if busy else since
        for entry in self.scheduler.entries.values():
            entry.takes_work = busy or now - since < 300
        return super()._read_jobs_and_nodes(config)


class RemovesInADryRun(MemoryDriver):
    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        self.read_only = False
        return config


class JoinsWhatHasAHostname(MemoryDriver):
    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        for node in nodes:
            if node.hostname:
                self.scheduler.ask().setdefault(host_of(node), Entry(node.delayed_node_id.node_id))
        return [node for node in nodes if node.state == "Ready"]


class JoinsAnewEachTime(MemoryDriver):
    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        ready = [node for node in nodes if node.state == "Ready"]
        for node in ready:
            self.scheduler.ask()[host_of(node)] = Entry(node.delayed_node_id.node_id)
        return ready


class JoinsOnlyOnce(MemoryDriver):
    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        for node in nodes:
            if node.state == "Ready" and node.hostname in self.scheduler.ask():
                raise ValueError(f"{node.hostname} exists already")
        return super().add_nodes_to_cluster(nodes)


class ReturnsWhatIsNotReady(MemoryDriver):
    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        super().add_nodes_to_cluster(nodes)
        return nodes


class RemembersDrainedHosts(MemoryDriver):
    drained: Set[str] = frozenset()

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        self.drained = {*self.drained, *(host_of(node) for node in nodes)}
        return super().handle_draining(nodes)

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        joined = super().add_nodes_to_cluster(nodes)
        for hostname in self.drained:
            if hostname in self.scheduler.entries:
                self.scheduler.entries[hostname].takes_work = False
        return joined


class IsRestless(MemoryDriver):
    passes = 0

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        self.passes += 1
        for node in nodes:
            self.scheduler.ask()[host_of(node)].takes_work = self.passes != 4
        return nodes


class CannotExplain(MemoryDriver):
    def explain_job(self, job: Job, verdict: Verdict) -> None:
        raise PermissionError("qalter: job is not yours")


class KnowsOnlyWhatItJoined(MemoryDriver):
    joined: Set[str] = frozenset()

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        joined = super().add_nodes_to_cluster(nodes)
        self.joined = {*self.joined, *(host_of(node) for node in joined)}
        return joined

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs, nodes = super()._read_jobs_and_nodes(config)
        return jobs, [node for node in nodes if node.hostname in self.joined]


class AssignsNothing(MemoryDriver):
    def reported(self, hostname: str, entry: Entry) -> SchedulerNode:
        node = super().reported(hostname, entry)
        node.assignments.clear()
        return node


class DoesNotDrain(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        return nodes


class DrainsEveryHost(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        for entry in self.scheduler.ask().values():
            entry.takes_work = entry.takes_work and not nodes
        return super().handle_draining(nodes)


class ForgetsEveryHost(MemoryDriver):
    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        if nodes:
            self.scheduler.ask().clear()
        return nodes


class ForgetsEveryHostWhenOneFails(MemoryDriver):
    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        if nodes:
            self.scheduler.ask().clear()
        return nodes


class DrainsOnlyWhatItKnows(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        entries = self.scheduler.ask()
        return super().handle_draining([node for node in nodes if node.hostname in entries])


class OpensClosedHosts(MemoryDriver):
    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        joined = super().add_nodes_to_cluster(nodes)
        for node in joined:
            self.scheduler.entries[host_of(node)].takes_work = True
        return joined


class OpensClosedHostsWhenTheyAreEmpty(MemoryDriver):
    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        joined = super().add_nodes_to_cluster(nodes)
        for entry in self.scheduler.entries.values():
            entry.takes_work = entry.takes_work or not entry.running
        return joined


class DrainsAfterwards(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        drained = super().handle_draining(nodes)
        for node in nodes:
            self.scheduler.entries[host_of(node)].takes_work = True
        return drained


class ReturnsCopies(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        return [node.clone() for node in super().handle_draining(nodes)]


class ReturnsNothing(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        super().handle_draining(nodes)
        return None  # type: ignore[return-value]  # the promise that is broken


class KeepsDeletedNodes(MemoryDriver):
    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        return nodes


class TrustsTheLastLook(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        super().handle_draining(nodes)
        return [node for node in nodes if not node.assignments]


class DrainsForGood(MemoryDriver):
    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        ready = [node for node in nodes if node.state == "Ready"]
        for node in ready:
            self.scheduler.ask().setdefault(host_of(node), Entry(node.delayed_node_id.node_id))
        return ready


class ReturnsOnlyNewlyDrained(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        entries = self.scheduler.ask()
        return super().handle_draining([n for n in nodes if entries[host_of(n)].takes_work])


class RemovesOnlyOnce(MemoryDriver):
    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        for node in nodes:
            del self.scheduler.ask()[host_of(node)]
        return nodes


class TakesNoneForAll(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        for entry in self.scheduler.ask().values():
            entry.takes_work = entry.takes_work and bool(nodes)
        return super().handle_draining(nodes)


class KeepsFailedNodes(MemoryDriver):
    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return []


class KeepsItsJobs(MemoryDriver):
    jobs: list[Job] | None = None

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs, nodes = super()._read_jobs_and_nodes(config)
        self.jobs = self.jobs or jobs
        return self.jobs, nodes


class KeepsHostsOfFailedNodes(MemoryDriver):
    failed: Set[str] = frozenset()

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        self.failed = {*self.failed, *(host_of(node) for node in nodes)}
        return nodes

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        self.forget([node for node in nodes if node.hostname not in self.failed])
        return nodes

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        pass


class WaitsForEver(MemoryDriver):
    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return []


class ComparesNothing(MemoryDriver):
    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        pass


class RemovesEveryStranger(MemoryDriver):
    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        listed = {node.delayed_node_id.node_id for node in cc_nodes}
        for hostname, entry in list(self.scheduler.ask().items()):
            if entry.node_id not in listed:
                del self.scheduler.entries[hostname]


class TakesSilenceForNoWork(MemoryDriver):
    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        try:
            return super()._read_jobs_and_nodes(config)
        except OSError:
            return [], []

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        pass


class DrainsWithoutAnAnswer(MemoryDriver):
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        try:
            return super().handle_draining(nodes)
        except OSError:
            return nodes


class OverlooksSilentHosts(MemoryDriver):
    def reported(self, hostname: str, entry: Entry) -> SchedulerNode:
        return super().reported(hostname, entry if entry.heard else Entry(entry.node_id))

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        entries = self.scheduler.ask()
        silent = [node for node in nodes if not entries[host_of(node)].heard]
        return [*super().handle_draining(nodes), *silent]


BROKEN = [
    ("test_waiting_work_makes_nodes", CountsQueues, "expected 3 new nodes for 9 waiting tasks"),
    ("test_work_is_counted_once", CountsRunningTasks, "running work waits for nothing"),
    ("test_busy_nodes_have_no_room", TakesNothingOff, "taken off its `available`"),
    ("test_a_dry_run_changes_nothing", DrainsWhileReading, "is idle and a dry run is made"),
    ("test_a_dry_run_changes_nothing", RemovesInADryRun, "has vanished and a dry run is made"),
    ("test_ready_nodes_join_and_others_do_not", JoinsWhatHasAHostname, "and is Preparing"),
    ("test_ready_nodes_join_and_others_do_not", ReturnsWhatIsNotReady, "is Off and not ready"),
    ("test_joining_is_repeated_every_pass", JoinsAnewEachTime, "nodes joined once more"),
    ("test_joining_is_repeated_every_pass", JoinsOnlyOnce, "ValueError: .* exists already"),
    ("test_a_host_name_that_is_used_again_joins", RemembersDrainedHosts, "the new htc-1 is ready"),
    ("test_nothing_changes_when_nothing_happens", IsRestless, "nothing has happened"),
    ("test_a_job_is_told_once_why_it_waits", CannotExplain, "explain_job: .*not yours"),
    ("test_another_process_goes_on", KnowsOnlyWhatItJoined, "another process runs a pass"),
    ("test_running_work_keeps_its_node", AssignsNothing, "in the node's `assignments`"),
    ("test_idle_nodes_drain_before_they_go", DoesNotDrain, "still takes new work"),
    ("test_idle_nodes_drain_before_they_go", DrainsAfterwards, "still takes new work"),
    ("test_idle_nodes_drain_before_they_go", ReturnsCopies, "not copies or others"),
    ("test_idle_nodes_drain_before_they_go", ReturnsNothing, "expected a list of nodes .* None"),
    ("test_only_idle_nodes_are_drained", DrainsEveryHost, "and no others"),
    ("test_only_deleted_nodes_are_forgotten", ForgetsEveryHost, "and no other host"),
    (
        "test_an_idle_node_that_the_scheduler_does_not_know_goes",
        DrainsOnlyWhatItKnows,
        "ready and idle for 24 hours, and not known",
    ),
    ("test_deleted_nodes_are_forgotten", KeepsDeletedNodes, "handle_post_delete to remove"),
    ("test_work_that_starts_before_the_drain_keeps_its_node", TrustsTheLastLook, "has work"),
    ("test_a_drained_node_that_is_needed_comes_back", DrainsForGood, "given back"),
    (
        "test_a_drained_host_stays_closed_until_it_is_needed",
        OpensClosedHosts,
        "it is drained, and nothing waits",
    ),
    (
        "test_a_drained_host_stays_closed_until_it_is_needed",
        OpensClosedHostsWhenTheyAreEmpty,
        "it is drained, and nothing waits",
    ),
    (
        "test_a_drained_node_that_could_not_be_deleted_goes_later",
        ReturnsOnlyNewlyDrained,
        "drained already, too",
    ),
    (
        "test_hooks_may_be_repeated",
        RemovesOnlyOnce,
        r"after deleting nodes: .*handle_post_delete: KeyError",
    ),
    ("test_hooks_take_empty_lists", TakesNoneForAll, "handle_draining without nodes"),
    ("test_nodes_that_fail_to_boot_are_replaced", KeepsFailedNodes, "handle_failed_nodes must"),
    (
        "test_nodes_that_fail_to_boot_are_replaced",
        KeepsItsJobs,
        "expected jobs and nodes that were read anew",
    ),
    ("test_nodes_that_fail_after_joining_are_forgotten", KeepsHostsOfFailedNodes, "to be removed"),
    (
        "test_nodes_that_fail_after_joining_are_forgotten",
        ForgetsEveryHostWhenOneFails,
        "and no other host",
    ),
    ("test_nodes_that_do_not_come_up_are_replaced", WaitsForEver, "handle_boot_timeout must"),
    ("test_nodes_that_vanish_are_forgotten", ComparesNothing, "in validate_nodes"),
    ("test_hosts_that_were_never_nodes_stay", RemovesEveryStranger, "on-premises-1"),
    (
        "test_waiting_work_makes_nodes",
        ReturnsNoConfig,
        r"ReturnsNoConfig\(memory\)\.preprocess_config: expected the configuration",
    ),
    (
        "test_nothing_changes_when_nothing_happens",
        HandsOverAnOldAnswer,
        "found the same reading_stamp, 'the answer of 12:00', as in the pass before",
    ),
    (
        "test_work_that_makes_no_sense_stops_no_other",
        EndsWithABadJob,
        r"expected a pass, found .*ValueError: line 2 of the queue",
    ),
    ("test_work_that_makes_no_sense_stops_no_other", LeavesOutBadJobs, "1 to be set aside; 0 were"),
    ("test_without_an_answer_nothing_changes", TakesSilenceForNoWork, "as if it had answered"),
    (
        "test_without_an_answer_to_the_drain_nothing_is_deleted",
        DrainsWithoutAnAnswer,
        "still takes new work",
    ),
    ("test_a_silent_host_is_not_idle", OverlooksSilentHosts, "has work"),
]
