"""Faults in the library of large messages, and the tests that find them."""

from __future__ import annotations

from mutants.copies import Mutant

SOURCE, FEATURE = "large_messages", "proxy/features/large_messages"
HERE, STAGES = "tests/large_messages", "tests/proxy/features/large_messages"
MUTANTS = (
    # assemble.py
    Mutant(
        f"{SOURCE}/assemble.py",
        "a slice without a key completes a message",
        "    if not part.may_complete:\n        return None\n",
        "",
        (
            f"{HERE}/test_assemble.py::test_slices_without_keys_are_no_message_without_a_carrier",
            f"{HERE}/test_small_model.py::test_every_consumer_gets_what_the_rule_says",
        ),
    ),
    # segment_index.py
    Mutant(
        f"{SOURCE}/segment_index.py",
        "a second copy before the message is complete: its last segment seems to be there",
        "for offsets in (one.carriers, one.numbers.get(segment.number)))",
        "for offsets in (one.carriers,))",
        (
            f"{HERE}/test_delivery.py::test_copies_of_a_segment_before_a_message_is_complete_change_nothing",
            f"{HERE}/test_small_model.py::test_every_consumer_gets_what_the_rule_says",
        ),
    ),
    # delivery.py
    Mutant(
        f"{SOURCE}/delivery.py",
        "a marker begins before the offset that the client asks for",
        "self._hidden_from = max(offsets_of(batch)[0], self.offset)",
        "self._hidden_from = offsets_of(batch)[0]",
        (f"{HERE}/test_delivery.py::test_a_marker_for_a_part_of_a_batch_begins_at_the_clients_offset",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "bytes of the batch that is written again do not count in the response's limits",
        "        size += self._pending\n",
        "",
        (f"{HERE}/test_delivery.py::test_records_that_come_before_a_message_in_its_batch_take_their_part_of_the_room",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "an unfinished assembly is gone on with although another message is at its offset now",
        "if assembly is None or assembly.segment != segment:",
        "if assembly is None:",
        (f"{HERE}/test_delivery.py::test_what_was_collected_for_another_message_at_the_same_offset_is_not_delivered",),
    ),
    # partition_log.py
    Mutant(
        f"{SOURCE}/partition_log.py",
        "a damaged record is sealed again, and looks valid",
        "if not batch.crc_is_right():",
        "if False:",
        (f"{HERE}/test_delivery.py::test_a_record_that_was_damaged_beside_a_large_message_is_withheld",),
    ),
    # segment_index.py
    Mutant(
        f"{SOURCE}/segment_index.py",
        "the gap is one offset too short",
        "return max(self.end - self.look_back, 0)",
        "return max(self.end - self.look_back + 1, 0)",
        (f"{HERE}/test_segment_index.py::test_a_window_says_what_a_list_of_all_segments_says",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "segments after a carrier complete its message once more",
        "for offsets in (one.carriers, one.numbers.get(segment.number)))",
        "for offsets in (one.numbers.get(segment.number),))",
        (f"{HERE}/test_segment_index.py::test_a_message_with_a_carrier_in_the_gap_is_not_completed_again",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "a carrier whose message was not delivered makes the next one a copy",
        "found = (one.delivered for block",
        "found = (one.carriers for block",
        (f"{HERE}/test_walks.py::test_a_carrier_whose_message_was_not_delivered_makes_no_other_a_copy",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "offsets that were skipped count as seen",
        "            self.end = end\n            self._is_open = self.is_seen = False\n",
        "            self._last().end = self.end = end\n",
        (f"{HERE}/test_segment_index.py::test_offsets_count_as_read_if_they_were",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "of the copies of a slice the first is taken, not the nearest",
        "if (last := offsets[-1]) >= first",
        "if (last := offsets[0]) >= first",
        (f"{HERE}/test_segment_index.py::test_a_window_says_what_a_list_of_all_segments_says",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "windows are kept without a limit",
        "while self.bytes > self._limit:",
        "while False:",
        (f"{HERE}/test_segment_index.py::test_all_windows_together_are_limited_in_bytes",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "a window that is cut forgets what was delivered",
        "offset in carriers, offset in delivered)",
        "offset in carriers, False)",
        (f"{HERE}/test_walks.py::test_a_copy_in_the_same_batch_is_one_also_for_the_request_that_goes_on_there",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "a window that is cut before a copy forgets that its message was delivered",
        "offset in carriers, offset in delivered)",
        "offset in message.carriers[-1:], offset in message.delivered[-1:])",
        (f"{HERE}/test_walks.py::test_a_copy_is_one_for_a_consumer_that_comes_to_it_later",),
    ),
    # delivery.py
    Mutant(
        f"{SOURCE}/delivery.py",
        "after a copy slices are deleted that groups after it need",
        "log.report.dropped(part.offset, COPY, None)",
        "log.report.dropped(part.offset, COPY, segment.message_id)",
        (f"{STAGES}/test_assemble_stage.py::test_a_copy_of_a_carrier_does_not_change_where_its_message_begins",),
    ),
    # segment_index.py
    Mutant(
        f"{SOURCE}/segment_index.py",
        "a part that the window has is added twice",
        "        if part.offset < self.end:  # the window has it\n            return\n",
        "",
        (f"{HERE}/test_segment_index.py::test_who_goes_on_within_a_batch_does_not_see_again_what_is_before",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "a window keeps what its gap has passed",
        "if one.start < end and one.end > found.first:",
        "if one.start < end:",
        (f"{HERE}/test_segment_index.py::test_who_goes_on_elsewhere_keeps_no_more_than_the_gap_before_that",),
    ),
    Mutant(
        f"{SOURCE}/segment_index.py",
        "a segment that has expired completes a message",
        "places[number] = offsets[bisect_left(offsets, first)]",
        "places[number] = offsets[0]",
        (f"{HERE}/test_segment_index.py::test_a_window_says_what_a_list_of_all_segments_says",),
    ),
    # delivery.py
    Mutant(
        f"{SOURCE}/delivery.py",
        "a member of a share group has seen what others have acquired",
        "            window.skip(last + 1)\n",
        "            window.extend(last + 1)\n",
        (f"{STAGES}/test_share_stage.py::test_so_do_those_in_the_response_that_others_have_acquired",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "a message that is late begins from its first slice again",
        "            self.unfinished.put(place, assembly)\n",
        "",
        (f"{HERE}/test_delivery.py::test_a_late_message_is_gone_on_with_in_the_next_request",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "a marker goes back after records that are visible",
        "        self.room.left -= size\n        self._hidden_from = None\n",
        "        self.room.left -= size\n",
        (f"{HERE}/test_delivery.py::test_a_message_comes_out_whole_and_its_slices_are_hidden",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "the limit of all partitions is that of each",
        "        self.room.left -= size\n",
        "",
        (f"{HERE}/test_delivery.py::test_what_one_partition_has_got_is_no_room_for_another",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "a message of exactly max_message is dropped",
        "if segment.size > log.settings.max_message:",
        "if segment.size >= log.settings.max_message:",
        (f"{HERE}/test_delivery.py::test_a_message_as_large_as_allowed_is_delivered",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "the record at the client's offset is not delivered",
        "is_wanted, whole = offset >= self.offset, None",
        "is_wanted, whole = offset > self.offset, None",
        (f"{HERE}/test_delivery.py::test_a_consumer_that_begins_anywhere_gets_what_follows",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "what the client does not get now counts as seen",
        "else self.cut_at\n                self.log.report.seen(",
        "else offsets_of(found[-1])[1] + 1\n                self.log.report.seen(",
        (f"{STAGES}/test_assemble_stage.py::test_what_a_client_does_not_get_now_was_not_seen",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "each response looks back again",
        "            self.log.index.keep(self.log.window)\n",
        "            pass\n",
        (f"{HERE}/test_walks.py::test_a_message_is_delivered_at_its_first_carrier_alone",),
    ),
    Mutant(
        f"{SOURCE}/delivery.py",
        "a batch that is written again ends before the hidden records after it",
        "        lasts = [*(after.first - 1 for after in made[1:]), end]",
        "        lasts = [*(after.first - 1 for after in made[1:]), made[-1].first]",
        (f"{HERE}/test_delivery.py::test_one_batch_with_several_messages_becomes_a_batch_for_each",),
    ),
    # assemble.py
    Mutant(
        f"{SOURCE}/assemble.py",
        "slices after the carrier are read and delivered",
        "part.pointers is not None and max(pointed.values(), default=-1) < part.offset:",
        "part.pointers is not None:",
        (f"{HERE}/test_assemble.py::test_slices_after_their_carrier_are_none",),
    ),
    Mutant(
        f"{SOURCE}/assemble.py",
        "slices of wrong pointers stay in the assembly",
        "        assembly.restart(part.segment)\n",
        "",
        (f"{HERE}/test_assemble.py::test_pointers_to_what_is_not_the_value_do_not_matter_if_the_slices_are_near",),
    ),
    Mutant(
        f"{SOURCE}/assemble.py",
        "what is before the log's start is asked for again for ever",
        " or fetched.log_start_offset > first:",
        ":",
        (f"{HERE}/test_assemble.py::test_slices_that_a_read_says_are_before_the_start_of_the_log_are_missing",),
    ),
    Mutant(
        f"{SOURCE}/assemble.py",
        "an empty read without an error drops the message",
        "    if not found.knows_first:\n        raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR)\n",
        "",
        (
            f"{HERE}/test_assemble.py::test_an_empty_read_drops_nothing_where_the_slices_are_too_far_away_to_be_searched",
        ),
    ),
    Mutant(
        f"{SOURCE}/assemble.py",
        "pointers to nothing make the sidecar read much",
        "    if not are_seen:  #",
        "    if are_seen:  #",
        (f"{HERE}/test_delivery.py::test_pointers_to_nothing_do_not_make_the_sidecar_read_much",),
    ),
    Mutant(
        f"{SOURCE}/assemble.py",
        "another slice of the message is taken for the one that is wanted",
        " or part.segment.number != wanted[offset]:",
        ":",
        (f"{HERE}/test_delivery.py::test_pointers_that_lead_elsewhere_do_not_matter_if_the_slices_are_near",),
    ),
    Mutant(
        f"{SOURCE}/assemble.py",
        "a message that is given up is not reported",
        "    if found is None and not sees_all:\n",
        "    if False:\n",
        (f"{HERE}/test_walks.py::test_a_message_of_which_not_all_could_be_searched_is_reported",),
    ),
    # assembly.py
    Mutant(
        f"{SOURCE}/assembly.py",
        "a value that is smaller than it announces is delivered",
        "if self.missing or self.bytes_left:",
        "if self.missing:",
        (f"{HERE}/test_assembly.py::test_a_value_that_is_not_whole_or_not_the_one_that_was_sent_is_refused",),
    ),
    # assemble.py
    Mutant(
        f"{SOURCE}/assemble.py",
        "one read inflates without a limit",
        "if found_bytes >= READ_BYTES:",
        "if False:",
        (f"{HERE}/test_assemble.py::test_one_read_inflates_no_more_than_its_limit_and_one_slice",),
    ),
    # partition_log.py
    Mutant(
        f"{SOURCE}/partition_log.py",
        "looking back skips all that is left of the gap where its beginning is deleted",
        "deleted_to = min(log_start, end) if log_start >= 0 else end",
        "deleted_to = end",
        (
            f"{HERE}/test_small_model.py::test_deletion_from_the_front_takes_the_messages_whose_segments_are_gone_and_no_others",
        ),
    ),
    Mutant(
        f"{SOURCE}/partition_log.py",
        "looking back has no bounded cost",
        "                window.room -= seen.bytes\n",
        "",
        (f"{HERE}/test_walks.py::test_looking_back_ends_with_a_bounded_cost_and_sees_what_is_nearest",),
    ),
    Mutant(
        f"{SOURCE}/partition_log.py",
        "a slice of another message is taken from the cache",
        "found.message_id != message_id or found.number != number:",
        "found.number != number:",
        (
            f"{HERE}/test_assemble.py::test_slices_of_before_that_are_kept_are_not_those_of_another_message_at_their_offsets",
        ),
    ),
    Mutant(
        f"{SOURCE}/partition_log.py",
        "of several ranges only the last says whether all was seen",
        "sees_all &= yield from self._read_unread(*missing)",
        "sees_all = yield from self._read_unread(*missing)",
        (f"{HERE}/test_walks.py::test_a_message_of_which_not_all_could_be_searched_is_reported",),
    ),
    Mutant(
        f"{SOURCE}/partition_log.py",
        "segments of aborted transactions are seen",
        "if visibility is SHOWN and first < end:",
        "if first < end:",
        (f"{HERE}/test_small_model.py::test_every_consumer_gets_what_the_rule_says",),
    ),
    # intervals.py
    Mutant(
        f"{SOURCE}/intervals.py",
        "a message that begins with the gap has expired",
        "                if one.start >= expired_before\n",
        "                if one.start > expired_before\n",
        (f"{HERE}/test_intervals.py::test_an_incomplete_message_expires_by_the_gap_of_offsets",),
    ),
    Mutant(
        f"{SOURCE}/intervals.py",
        "slices of a message that is forgotten are deleted",
        "is_forgotten = offset <= at.forgotten_end or",
        "is_forgotten = offset < at.forgotten_end or",
        (f"{HERE}/test_intervals.py::test_where_messages_are_forgotten_the_whole_gap_stays",),
    ),
    Mutant(
        f"{SOURCE}/intervals.py",
        "a slice that is left over opens a message again that is complete",
        "elif known.end != _INCOMPLETE or known.start <= offset <= known.last:",
        "elif known.start <= offset <= known.last:",
        (f"{HERE}/test_intervals.py::test_a_slice_of_a_message_that_is_complete_changes_nothing",),
    ),
    Mutant(
        f"{SOURCE}/intervals.py",
        "a message that another process has completed holds the safe offset back",
        "and at.first_unseen(one.start, committed) is None",
        "",
        (
            f"{HERE}/test_intervals.py::test_an_incomplete_message_does_not_count_where_what_completes_it_may_have_been_read_elsewhere",
        ),
    ),
    # delete_stage.py
    Mutant(
        f"{FEATURE}/delete_stage.py",
        "the first offset of the gap is not looked at before a deletion",
        "first = max(offset - 1 - gap, log_start)",
        "first = max(offset - gap, log_start)",
        (f"{STAGES}/test_delete_stage.py::test_only_slices_in_the_gap_before_the_offset_are_looked_for",),
    ),
    Mutant(
        f"{FEATURE}/delete_stage.py",
        "a forged carrier closes a message, and its slices are deleted",
        "if part.pointers is None or part.pointers.crc == _crc(",
        "if part.pointers is None or part.pointers.crc != -_crc(",
        (f"{STAGES}/test_delete_stage.py::test_a_forged_carrier_does_not_let_the_slices_of_a_message_be_deleted",),
    ),
    Mutant(
        f"{FEATURE}/delete_stage.py",
        "a slice without a key closes a message, and the slices are deleted",
        "(is_new and part.may_complete) else None",
        "is_new else None",
        (f"{STAGES}/test_delete_stage.py::test_a_last_slice_without_a_key_completes_no_message",),
    ),
    Mutant(
        f"{FEATURE}/delete_stage.py",
        "where the gap begins within a message its first slices are deleted",
        "elif part.pointers is not None:  # to what is",
        "elif False:  # to what is",
        (f"{STAGES}/test_delete_stage.py::test_but_what_is_known_to_begin_before_it_stays_as_well",),
    ),
    Mutant(
        f"{FEATURE}/delete_stage.py",
        "records are deleted although the log could not be read",
        "raise UnreadableError(fetched.error_code)\n        end, parts",
        "break\n        end, parts",
        (f"{STAGES}/test_delete_stage.py::test_nor_where_the_log_begins_elsewhere_by_now",),
    ),
    # offsets.py
    Mutant(
        f"{SOURCE}/offsets.py",
        "an offset as far away as a message may reach is not believed",
        "return committed.offset - safe <= max_gap + 1",
        "return committed.offset - safe <= max_gap",
        (f"{HERE}/test_offsets.py::test_a_number_farther_than_a_message_may_reach_is_not_that_of_li",),
    ),
    Mutant(
        f"{SOURCE}/offsets.py",
        "metadata of li at an equal offset is not unwrapped",
        "number is None or number < stored.offset or",
        "number is None or number <= stored.offset or",
        (f"{HERE}/test_offsets.py::test_a_client_gets_what_it_has_committed",),
    ),
    # cache.py
    Mutant(
        f"{SOURCE}/cache.py",
        "a second group's S replaces a smaller one",
        "points[committed] = min(safe, points.pop(committed, safe))",
        "points[committed] = safe",
        (f"{HERE}/test_resume_points.py::test_two_groups_at_one_offset_have_the_smaller_safe_offset",),
    ),
    Mutant(
        f"{SOURCE}/cache.py",
        "an assembly that is put twice counts twice",
        "        self.take(place)\n        self._assemblies",
        "        self._assemblies",
        (f"{HERE}/test_cache.py::test_a_newer_assembly_of_the_same_message_replaces_the_older_one",),
    ),
    # segment_stage.py
    Mutant(
        f"{FEATURE}/segment_stage.py",
        "a client writes a reference to an object",
        "OURS = (back_pointers.KEY, object_reference.KEY)",
        "OURS = (back_pointers.KEY,)",
        (f"{STAGES}/test_client_records.py::test_what_only_sidecars_write_is_refused_with_policies_and_without",),
    ),
    Mutant(
        f"{FEATURE}/segment_stage.py",
        "a segment under the header of a delivered message walks around the policies",
        "reader.parts(0, strip_delivered(records)).items()",
        "reader.parts(0, records).items()",
        (f"{STAGES}/test_client_records.py::test_segments_are_found_in_every_form_where_records_are_validated",),
    ),
    Mutant(
        f"{FEATURE}/segment_stage.py",
        "segments of a value of exactly max_message are refused",
        "and part.segment.size > max_message\n",
        "and part.segment.size >= max_message\n",
        (f"{STAGES}/test_client_records.py::test_segments_of_a_value_that_no_consumer_would_get_are_refused",),
    ),
    # classify.py
    Mutant(
        f"{SOURCE}/classify.py",
        "a carrier points to one slice twice",
        " and len(set(offsets)) == len(offsets)",
        "",
        (f"{HERE}/test_classify.py::test_a_carrier_whose_pointers_cannot_be_right_has_none",),
    ),
    Mutant(
        f"{SOURCE}/classify.py",
        "a message of the most segments is damaged",
        "if segment.count > MAX_SEGMENTS:",
        "if segment.count >= MAX_SEGMENTS:",
        (f"{HERE}/test_classify.py::test_a_message_may_have_so_many_segments_and_no_more",),
    ),
    # splitting.py
    Mutant(
        f"{SOURCE}/splitting.py",
        "slices are not in the codec in which the topic stores them",
        "codec = batch.header.codec if target.codec is None else target.codec\n    form",
        "codec = batch.header.codec\n    form",
        (f"{STAGES}/test_split_stage.py::test_what_counts_is_the_size_that_the_broker_stores",),
    ),
    Mutant(
        f"{SOURCE}/splitting.py",
        "slices of another key's message are used again",
        'parts = (target.sender, target.topic_id, target.topic.encode(), known, record.key or b"")',
        "parts = (target.sender, target.topic_id, target.topic.encode(), known)",
        (f"{STAGES}/test_progress.py::test_another_message_gets_none_of_them",),
    ),
    Mutant(
        f"{SOURCE}/splitting.py",
        "a value of exactly max_message is refused",
        "    if largest > max_message:",
        "    if largest >= max_message:",
        (f"{STAGES}/test_split_stage.py::test_what_is_split_and_rejected_is_counted_and_logged",),
    ),
    # object_reference.py
    Mutant(
        f"{SOURCE}/object_reference.py",
        "a record refers to an object of another topic",
        "return folder == topic and _NAME",
        "return _NAME",
        (f"{HERE}/test_object_reference.py::test_an_object_that_is_not_of_the_topic_is_rejected",),
    ),
    # sub_batches.py
    Mutant(
        f"{SOURCE}/sub_batches.py",
        "sequence numbers do not begin again after the largest",
        "sequence = (sequence + self.first - old.base_offset) & MAX_SEQUENCE",
        "sequence = sequence + self.first - old.base_offset",
        (f"{HERE}/test_delivery.py::test_sequence_numbers_go_on_at_0_after_the_largest",),
    ),
    # lm_header.py
    Mutant(
        f"{SOURCE}/lm_header.py",
        "a delivered message is a segment by its number",
        "return self.message_id == NO_MESSAGE or self.number == DELIVERED_NUMBER",
        "return self.message_id == NO_MESSAGE",
        (f"{HERE}/test_lm_header.py::test_a_header_that_li_has_delivered_is_recognised",),
    ),
)
