"""Faults in the stages of large messages, and the tests that find them."""

from __future__ import annotations

from mutants.copies import Mutant

SOURCE = "proxy/features/large_messages"
STAGES = "tests/proxy/features/large_messages"
MUTANTS = (
    # split_stage.py
    Mutant(
        f"{SOURCE}/split_stage.py",
        "the broker is not asked again after it has found a batch too large",
        "                self.services.topic_limits.forget(topic)\n",
        "                pass\n",
        (f"{STAGES}/test_split_stage.py::test_a_carrier_that_the_broker_finds_too_large_has_it_asked_at_once",),
    ),
    # slices.py
    Mutant(
        f"{SOURCE}/slices.py",
        "the last error of several slices is the client's",
        "        elif self.error is None:\n            self.error = result",
        "        else:\n            self.error = result",
        (f"{STAGES}/test_split_stage.py::test_the_first_error_of_several_slices_is_the_clients",),
    ),
    # assemble_stage.py
    Mutant(
        f"{SOURCE}/assemble_stage.py",
        "the high watermark stays after what was read ahead",
        "            partition.high_watermark = max(high, fetched.high_watermark)\n",
        "",
        (f"{STAGES}/test_assemble_stage.py::test_the_end_of_the_log_is_that_of_what_was_read_last",),
    ),
    # object_stage.py
    Mutant(
        f"{SOURCE}/object_stage.py",
        "a value over max_message is stored as an object",
        "if max(records.sizes()[1], default=0) > self._settings.max_message:",
        "if False:",
        (f"{STAGES}/test_object_stage.py::test_a_value_over_max_message_is_refused_and_not_stored",),
    ),
    # topic_limits.py
    Mutant(
        f"{SOURCE}/topic_limits.py",
        "a limit that was learned is never asked for again",
        "return found if found is not None and self._clock() - found.known_at <= MAX_AGE_S else None",
        "return found",
        (f"{STAGES}/test_split_stage.py::test_the_limit_of_a_topic_is_asked_for_once",),
    ),
    Mutant(
        f"{SOURCE}/topic_limits.py",
        "the topic's compression.type is not known",
        'codec=CODECS.get(values.get(COMPRESSION, "")),',
        "codec=None,",
        (f"{STAGES}/test_split_stage.py::test_what_counts_is_the_size_that_the_broker_stores",),
    ),
    # slices.py
    Mutant(
        f"{SOURCE}/slices.py",
        "one client's right to write is another's",
        "asked_at = self._known.get((connection, key))",
        "asked_at = max((at for (_, one), at in self._known.items() if one == key), default=None)",
        (f"{STAGES}/test_object_stage.py::test_it_is_asked_once_in_a_while_for_each_connection_and_partition",),
    ),
    Mutant(
        f"{SOURCE}/slices.py",
        "a right that is withdrawn counts for ever",
        "if asked_at is not None and now - asked_at <= MAX_AGE_S:",
        "if asked_at is not None:",
        (f"{STAGES}/test_object_stage.py::test_it_is_asked_once_in_a_while_for_each_connection_and_partition",),
    ),
    Mutant(
        f"{SOURCE}/slices.py",
        "old brokers lets no client write objects",
        "MAY_WRITE = frozenset({ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})",
        "MAY_WRITE = frozenset({ErrorCode.NONE, ErrorCode.INVALID_RECORD})",
        (f"{STAGES}/test_object_stage.py::test_a_broker_that_finds_no_records_has_nothing_against_the_client",),
    ),
    Mutant(
        f"{SOURCE}/slices.py",
        "rights are remembered without a limit",
        "self._known = Bounded[tuple[int, PartitionKey], float](MAX_KNOWN)",
        "self._known: dict[tuple[int, PartitionKey], float] = {}",
        (f"{STAGES}/test_object_stage.py::test_what_brokers_have_said_is_forgotten_where_it_becomes_too_much",),
    ),
    # progress.py
    Mutant(
        f"{SOURCE}/progress.py",
        "a carrier that may be stored is stored twice",
        "elif found.is_final or (found.owner",
        "elif (found.owner",
        (
            f"{STAGES}/test_progress.py::test_after_a_carrier_of_which_nothing_is_known_only_an_idempotent_producer_uses_them",
        ),
    ),
    # split_stage.py
    Mutant(
        f"{SOURCE}/split_stage.py",
        "slices that are cut in another way are never counted as left over",
        "            store.keep(one, {made.number: made.print for made in slices if made.progress is one})\n",
        "            pass\n",
        (f"{STAGES}/test_progress.py::test_slices_of_another_size_are_not_used_again",),
    ),
    # progress.py
    Mutant(
        f"{SOURCE}/progress.py",
        "progress that is taken counts in the limit for ever",
        "        elif found.owner is None:\n            self._bytes -= found.weight\n",
        "",
        (f"{STAGES}/test_progress.py::test_progress_that_is_taken_and_put_back_does_not_take_more_room",),
    ),
    Mutant(
        f"{SOURCE}/progress.py",
        "after a retriable error the retry begins from its first slice",
        "progress.owner, progress.is_final, progress.at = None, False, self._clock()",
        "progress.owner, progress.at = None, self._clock()",
        (
            f"{STAGES}/test_progress.py::test_after_a_carrier_that_is_rejected_they_are_used_if_it_is_sent_again_and_not_stored",
        ),
    ),
    # slices.py
    Mutant(
        f"{SOURCE}/slices.py",
        "two attempts store a carrier each",
        "        if any(one.progress.owner is not attempt for one in slices):\n            return Stopped(None)\n",
        "",
        (f"{STAGES}/test_progress.py::test_an_attempt_whose_message_is_sent_again_ends_and_stores_no_carrier",),
    ),
    Mutant(
        f"{SOURCE}/slices.py",
        "slices of a producer with acks=0 have no offsets",
        "acks=spans.acks or 1,",
        "acks=spans.acks,",
        (f"{STAGES}/test_split_stage.py::test_with_acks_0_slices_are_acknowledged_and_the_carrier_is_not",),
    ),
    # split_stage.py
    Mutant(
        f"{SOURCE}/split_stage.py",
        "slices that one replica has are used again",
        "begin = store.begin if run.spans.acks == ALL_REPLICAS and not found",
        "begin = store.begin if not found",
        (f"{STAGES}/test_progress.py::test_another_message_gets_none_of_them",),
    ),
    Mutant(
        f"{SOURCE}/split_stage.py",
        "the carrier of a producer that is not idempotent is stored twice",
        "one.is_final = not sending.is_idempotent",
        "one.is_final = False",
        (
            f"{STAGES}/test_progress.py::test_after_a_carrier_of_which_nothing_is_known_only_an_idempotent_producer_uses_them",
        ),
    ),
    Mutant(
        f"{SOURCE}/split_stage.py",
        "after a connection was lost a carrier that may be stored is sent once more for the same slices",
        "is_known = not self._is_sent or sending.is_idempotent",
        "is_known = True",
        (
            f"{STAGES}/test_progress.py::test_after_a_carrier_of_which_nothing_is_known_only_an_idempotent_producer_uses_them",
        ),
    ),
    Mutant(
        f"{SOURCE}/split_stage.py",
        "a setting above the topic's limit is believed again after the broker has rejected it",
        "if settings.max_batch is None or limits.was_needed(self._topic):",
        "if settings.max_batch is None:",
        (
            f"{STAGES}/test_split_stage.py::test_a_setting_that_allows_more_than_the_topic_is_found_out_by_the_first_batch_that_is_rejected",
        ),
    ),
    # segment_stage.py
    Mutant(
        f"{SOURCE}/segment_stage.py",
        "a response names any number of records",
        "if len(found.records) > max(1, services.max_record_errors):",
        "if False:",
        (f"{STAGES}/test_segment_stage.py::test_a_response_names_no_more_records_than_its_limit",),
    ),
    # assemble_stage.py
    Mutant(
        f"{SOURCE}/assemble_stage.py",
        "memory for a share group's messages is never released",
        "        finally:\n            self._reads.close()\n",
        "        finally:\n            pass\n",
        (f"{STAGES}/test_share_stage.py::test_memory_is_reserved_for_a_message_and_released_after_it",),
    ),
    Mutant(
        f"{SOURCE}/assemble_stage.py",
        "what cannot be read now is acknowledged as a gap",
        "            partition.release_from(delivery.cut_at)\n",
        "            pass\n",
        (f"{STAGES}/test_share_stage.py::test_what_the_broker_does_not_let_be_read_now_is_not_acquired",),
    ),
    Mutant(
        f"{SOURCE}/assemble_stage.py",
        "transactions of before are no longer in the response",
        "                aborted = partition.aborted = _merge(aborted, fetched.aborted)",
        "                aborted = partition.aborted = tuple(fetched.aborted)",
        (f"{STAGES}/test_assemble_stage.py::test_aborted_transactions_of_before_stay_in_the_response",),
    ),
    # offset_stage.py
    Mutant(
        f"{SOURCE}/offset_stage.py",
        "a negative offset is wrapped",
        'settings.offsets == "plain" or offset.offset < 0:',
        'settings.offsets == "plain":',
        (f"{STAGES}/test_offset_stage.py::test_a_negative_offset_is_left_to_the_broker",),
    ),
    # offset_fetch.py
    Mutant(
        f"{SOURCE}/offset_fetch.py",
        "where the log begins at the committed offset the group begins out of range",
        "if one.safe < log_start <= one.committed:",
        "if one.safe < log_start < one.committed:",
        (f"{STAGES}/test_offset_fetch.py::test_a_number_above_the_offset_is_believed_if_a_segment_is_there",),
    ),
    Mutant(
        f"{SOURCE}/offset_fetch.py",
        "a whole message at the stored offset proves metadata that only looks like li's",
        "return any(one.segment.count > 1 for one in found)",
        "return any(True for _ in found)",
        (f"{STAGES}/test_offset_fetch.py::test_a_message_that_is_whole_in_one_segment_is_no_reason_to_believe_it",),
    ),
    Mutant(
        f"{SOURCE}/offset_fetch.py",
        "one response makes the sidecar read any number of times",
        "                if left > 0:\n",
        "                if True:\n",
        (f"{STAGES}/test_offset_fetch.py::test_of_one_response_so_many_offsets_are_read_at_most_and_each_once",),
    ),
    Mutant(
        f"{SOURCE}/offset_fetch.py",
        "what cannot be read is believed, and records are skipped",
        "    except (UnreadableError, TimeoutError):\n        return UNREAD, -1\n",
        "    except (UnreadableError, TimeoutError):\n        return None, -1\n",
        (f"{STAGES}/test_offset_fetch.py::test_what_cannot_be_read_is_not_believed",),
    ),
    Mutant(
        f"{SOURCE}/offset_fetch.py",
        "a number farther away than a message may reach is believed",
        'if not is_plausible(one.safe, Committed(one.committed, ""), settings.look_back):',
        "if False:",
        (f"{STAGES}/test_offset_fetch.py::test_a_number_above_the_offset_is_believed_if_a_segment_is_there",),
    ),
    # delete_stage.py
    Mutant(
        f"{SOURCE}/delete_stage.py",
        "a deletion up to the end takes slices whose message is not complete",
        "offset = edges.end if offset == TO_THE_END else offset",
        "offset = offset",
        (f"{STAGES}/test_delete_stage.py::test_the_high_watermark_is_an_offset_like_any_other",),
    ),
    Mutant(
        f"{SOURCE}/delete_stage.py",
        "records are deleted although nothing is known of their log",
        "            if edges.error_code:\n                raise UnreadableError(edges.error_code)\n",
        "",
        (f"{STAGES}/test_delete_stage.py::test_while_the_log_cannot_be_read_nothing_of_the_partition_is_deleted",),
    ),
    Mutant(
        f"{SOURCE}/delete_stage.py",
        "what was not looked at in time is deleted",
        "            except TimeoutError:\n                error_code = ErrorCode.REQUEST_TIMED_OUT\n",
        "            except TimeoutError:\n                pass\n",
        (f"{STAGES}/test_delete_stage.py::test_nor_once_the_time_is_over",),
    ),
    Mutant(
        f"{SOURCE}/delete_stage.py",
        "a request without anything to delete is answered by the sidecar",
        "if not topics and self._refused:\n",
        "if not topics:\n",
        (
            f"{STAGES}/test_delete_stage.py::test_a_topic_of_which_nothing_is_deleted_is_no_reason_to_respond_for_the_broker",
        ),
    ),
    # reads.py
    Mutant(
        f"{SOURCE}/reads.py",
        "a new session has the positions of the old one",
        "if isinstance(before, FetchPositions) and request.session_epoch > 0 else {}",
        "if isinstance(before, FetchPositions) else {}",
        (f"{STAGES}/test_reads.py::test_a_new_session_knows_nothing_of_the_one_before",),
    ),
    Mutant(
        f"{SOURCE}/reads.py",
        "an empty response without a quota is waited for again and again",
        "if not message.responses and message.throttle_time_ms > 0:",
        "if not message.responses:",
        (f"{STAGES}/test_reads.py::test_another_response_means_that_the_log_cannot_be_read_now",),
    ),
    Mutant(
        f"{SOURCE}/reads.py",
        "memory is released twice",
        "            self._client.account.release(self._reserved)\n            self._reserved = 0\n",
        "            self._client.account.release(self._reserved)\n",
        (f"{STAGES}/test_assemble_stage.py::test_a_client_may_go_away_at_any_moment_of_a_fetch",),
    ),
    Mutant(
        f"{SOURCE}/reads.py",
        "a client waits for a read that its quota holds back, however long",
        "        while True:\n            self._check_time()\n            (response,)",
        "        self._check_time()\n        while True:\n            (response,)",
        (f"{STAGES}/test_assemble_stage.py::test_no_slice_is_shown_however_long_the_broker_throttles",),
    ),
    # object_stage.py
    Mutant(
        f"{SOURCE}/object_stage.py",
        "an object is stored for a client that may not write",
        "                    partition.rejection = rejection\n                    return\n",
        "                    partition.rejection = rejection\n",
        (f"{STAGES}/test_object_stage.py::test_what_the_broker_says_against_it_is_the_clients_and_nothing_is_stored",),
    ),
    # object_store.py
    Mutant(
        f"{SOURCE}/object_store.py",
        "an object of exactly the size that is allowed is missing",
        'if found.meta["size"] > need.max_size:',
        'if found.meta["size"] >= need.max_size:',
        (f"{STAGES}/test_object_store.py::test_objects_are_read_as_they_were_written",),
    ),
    # clean_up.py
    Mutant(
        f"{SOURCE}/clean_up.py",
        "objects that no sidecar has named are deleted",
        "if is_key_of(topic, one.key)]",
        "]",
        (f"{STAGES}/test_clean_up.py::test_what_no_sidecar_has_stored_is_not_touched",),
    ),
    Mutant(
        f"{SOURCE}/clean_up.py",
        "objects are deleted before their records are sent",
        "now - one.modified_at > older_than_s]",
        "now - one.modified_at > 0]",
        (f"{STAGES}/test_clean_up.py::test_exactly_the_old_objects_without_a_reference_are_deleted",),
    ),
)
