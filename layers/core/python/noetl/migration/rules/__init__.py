"""Every rule, in the order in which they are applied.

First come rules about places of keys, then rules about their meaning.
"""

from __future__ import annotations

from noetl.migration.rule import Rule
from noetl.migration.rules.document import (
    api_version,
    executor_settings,
    keychain_kind,
    label_text,
    metadata_fields,
    root_keys,
    root_variables,
    telemetry,
)
from noetl.migration.rules.paging import cursor_loop, retry_list, retry_pages
from noetl.migration.rules.reading import (
    loop_index,
    loop_results,
    loop_summary,
    payload,
    rows_list,
    spelling,
    steps_prefix,
)
from noetl.migration.rules.routing import (
    case_targets,
    given_nulls,
    guard_text,
    item_targets,
    next_conditions,
    next_payload,
    rule_else,
)
from noetl.migration.rules.steps import (
    bare_set,
    canonical_form,
    http_result,
    no_result,
    set_list,
    step_calls,
    step_pass,
    step_result,
    task_type,
    tool_fields,
    tool_name,
)
from noetl.migration.rules.tools import (
    assertions,
    call_input,
    code_templates,
    connection_pool,
    container_settings,
    credential_name,
    duckdb_memory,
    empty_keys,
    http_data,
    kind_names,
    output_select,
    playbook_call,
    playbook_file,
    python_libs,
    script_file,
    shell_commands,
    sql_lists,
    sql_positions,
    sql_quotes,
    sql_text,
    task_timeout,
    transfer_ends,
    transfer_http,
)
from noetl.migration.rules.writes import (
    inline_tasks,
    loop_save,
    save_answer,
    save_block,
    sink_event_log,
    sink_names,
    sink_statement,
    sink_tool,
    sink_upsert,
)

_MODULES = (
    *(
        http_result,
        save_answer,
        api_version,
        root_keys,
        root_variables,
        metadata_fields,
        label_text,
        executor_settings,
        keychain_kind,
        telemetry,
    ),
    *(step_pass, tool_name, step_result, no_result, task_type, tool_fields, step_calls, rule_else),
    *(
        loop_save,
        save_block,
        sink_event_log,
        kind_names,
        sink_tool,
        sink_statement,
        sink_upsert,
        sink_names,
        inline_tasks,
    ),
    *(
        guard_text,
        case_targets,
        retry_list,
        retry_pages,
        cursor_loop,
        next_conditions,
        next_payload,
        given_nulls,
        set_list,
        bare_set,
        item_targets,
    ),
    *(
        empty_keys,
        http_data,
        script_file,
        python_libs,
        call_input,
        code_templates,
        credential_name,
        assertions,
        duckdb_memory,
        connection_pool,
        playbook_call,
        playbook_file,
    ),
    *(
        transfer_ends,
        transfer_http,
        container_settings,
        shell_commands,
        sql_positions,
        sql_lists,
        sql_quotes,
        sql_text,
        task_timeout,
        output_select,
    ),
    *(payload, steps_prefix, loop_index, loop_results, loop_summary, rows_list, spelling, canonical_form),
)
RULES: tuple[Rule, ...] = tuple(module.RULE for module in _MODULES)
