"""The answers of the library, and who is told about them.

A result says what came of a question or an action: a status word, the nodes concerned, and reasons
when it failed. Each one is reported to the registered handlers as soon as it is made. Deciding
anything does not belong here. Made by the constraints, the node manager and the calculator; read by
integrations, the command line and `DefaultContextHandler`.

Results are made by the million and rarely read, so ids, sentences and lists come into being when
somebody reads them: wherever a constructor takes reasons or nodes, it also takes a function without
arguments that makes the list later.
"""

from hpc.autoscale.results.answers import AllocationResult as AllocationResult
from hpc.autoscale.results.answers import CandidatesResult as CandidatesResult
from hpc.autoscale.results.answers import EarlyBailoutResult as EarlyBailoutResult
from hpc.autoscale.results.answers import MatchResult as MatchResult
from hpc.autoscale.results.answers import SatisfiedResult as SatisfiedResult
from hpc.autoscale.results.answers import answer_of as answer_of
from hpc.autoscale.results.answers import answers_of as answers_of
from hpc.autoscale.results.answers import is_any_preferred as is_any_preferred
from hpc.autoscale.results.answers import space_of as space_of
from hpc.autoscale.results.answers import weights_of as weights_of
from hpc.autoscale.results.base import HANDLERS as HANDLERS
from hpc.autoscale.results.base import InvalidResultError as InvalidResultError
from hpc.autoscale.results.base import Later as Later
from hpc.autoscale.results.base import Report as Report
from hpc.autoscale.results.base import Result as Result
from hpc.autoscale.results.base import ResultHandler as ResultHandler
from hpc.autoscale.results.base import fire_result_handlers as fire_result_handlers
from hpc.autoscale.results.base import muted as muted
from hpc.autoscale.results.base import register_result_handler as register_result_handler
from hpc.autoscale.results.base import settle as settle
from hpc.autoscale.results.base import tell as tell
from hpc.autoscale.results.base import (
    unregister_all_result_handlers as unregister_all_result_handlers,
)
from hpc.autoscale.results.base import unregister_result_handler as unregister_result_handler
from hpc.autoscale.results.base import why_failed as why_failed
from hpc.autoscale.results.context import DefaultContextHandler as DefaultContextHandler
from hpc.autoscale.results.context import ResultsHandler as ResultsHandler
from hpc.autoscale.results.operations import BootupResult as BootupResult
from hpc.autoscale.results.operations import DeallocateResult as DeallocateResult
from hpc.autoscale.results.operations import DeleteResult as DeleteResult
from hpc.autoscale.results.operations import NodeOperationResult as NodeOperationResult
from hpc.autoscale.results.operations import ReimageResult as ReimageResult
from hpc.autoscale.results.operations import RemoveResult as RemoveResult
from hpc.autoscale.results.operations import RestartResult as RestartResult
from hpc.autoscale.results.operations import ShutdownResult as ShutdownResult
from hpc.autoscale.results.operations import StartResult as StartResult
from hpc.autoscale.results.operations import TerminateResult as TerminateResult
