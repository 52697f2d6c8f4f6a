"""What the specification says of create infos and the registry does not: which members a pipeline ignores.

An ignored pointer may be invalid, so nobody may follow it. Other ignored members may be uninitialized memory of the
program's, so they decide nothing. Where the specification lets a pointer be invalid under further conditions, the rule
here is the stricter one.
"""

from __future__ import annotations

from dataclasses import dataclass

#: What is known of a pipeline, in the order of their bits, and what each means. The first four are those of
#: VkGraphicsPipelineLibraryFlagBitsEXT.
FACTS = {
    "VERTEX_INPUT": "it has the state of this subset",
    "PRE_RASTERIZATION": "likewise",
    "FRAGMENT_SHADER": "likewise",
    "FRAGMENT_OUTPUT": "likewise",
    "STAGES": "its own stages count",
    "NO_STAGES": "its create info has none",
    "MESH": "one of its stages is a mesh shader",
    "TESSELLATION": "it has both stages of tessellation",
    "DISCARDS": "it discards everything before rasterization, always",
    "RASTERIZES": "it may rasterize",
    "RENDER_PASS": "it is for a render pass",
    "COLORS": "it may have color attachments",
    "DEPTH": "it may have a depth or stencil attachment",
    "LINKED": "it is linked from libraries",
    "HASHED": "of the walk: it makes a hash",
    "RECORDED": "of the walk: it copies (layer/state/image.c)",
}


@dataclass(frozen=True)
class Rule:
    """When a member counts: each fact of `need` holds and none of `never`, and the pipeline has none of the dynamic
    states `any` and not each of `all`. With `when`, that member of the same structure must not be 0, or be one of
    `values`, unless a dynamic state of `moot` replaces it. `valid`: a pointer that dynamic states replace is NULL or
    valid all the same, so recorded state has what it points to."""

    need: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    when: str = ""
    values: tuple[int, ...] = ()
    moot: tuple[str, ...] = ()
    valid: bool = False


def dynamic(*states: str) -> Rule:
    return Rule(any=states)


def when(member: str, *moot: str, any: tuple[str, ...] = ()) -> Rule:
    return Rule(when=member, moot=moot, any=any)


#: Members that do not decide what a driver compiles, or of which each run may have others: results, names, and what
#: fingerprints.c adds in another form.
NOT_HASHED = Rule(never=("HASHED",))
#: What is in no recorded state either. Structures with pointers to results are not: a driver would write there.
NEITHER = Rule(never=("HASHED", "RECORDED"))
#: Further structures that recorded state has not: names, handles of this process, callbacks, what a driver made, and
#: code, which is a shader module there.
NOT_RECORDED = (
    "VkDebugUtilsObjectNameInfoEXT",
    "VkDeviceDeviceMemoryReportCreateInfoEXT",
    "VkDeviceGroupDeviceCreateInfo",
    "VkDevicePrivateDataCreateInfo",
    "VkOpaqueCaptureDescriptorDataCreateInfoEXT",
    "VkPipelineBinaryInfoKHR",
    "VkPipelineShaderStageModuleIdentifierCreateInfoEXT",
    "VkShaderModuleCreateInfo",
    "VkShaderModuleValidationCacheCreateInfoEXT",
)
#: Any of these makes parts of the state of NVIDIA's structures dynamic, and the walk ignores all of it.
COVERAGE = (
    "COVERAGE_TO_COLOR_ENABLE_NV",
    "COVERAGE_TO_COLOR_LOCATION_NV",
    "COVERAGE_MODULATION_MODE_NV",
    "COVERAGE_MODULATION_TABLE_ENABLE_NV",
    "COVERAGE_MODULATION_TABLE_NV",
    "COVERAGE_REDUCTION_MODE_NV",
)
VIEWPORTS_NV = (
    "VIEWPORT_W_SCALING_NV",
    "VIEWPORT_W_SCALING_ENABLE_NV",
    "VIEWPORT_SWIZZLE_NV",
    "VIEWPORT_SHADING_RATE_PALETTE_NV",
    "VIEWPORT_COARSE_SAMPLE_ORDER_NV",
    "SHADING_RATE_IMAGE_ENABLE_NV",
    "EXCLUSIVE_SCISSOR_NV",
    "EXCLUSIVE_SCISSOR_ENABLE_NV",
)
RECTANGLES = ("DISCARD_RECTANGLE_EXT", "DISCARD_RECTANGLE_ENABLE_EXT", "DISCARD_RECTANGLE_MODE_EXT")
#: Dynamic states that share a bit: one of them is as all.
TOGETHER = (COVERAGE, VIEWPORTS_NV, RECTANGLES)

ALL_RASTERIZATION = (
    "DEPTH_CLAMP_ENABLE_EXT",
    "RASTERIZER_DISCARD_ENABLE",
    "POLYGON_MODE_EXT",
    "CULL_MODE",
    "FRONT_FACE",
    "DEPTH_BIAS_ENABLE",
    "DEPTH_BIAS",
    "LINE_WIDTH",
)
ALL_DEPTH_STENCIL = (
    "DEPTH_TEST_ENABLE",
    "DEPTH_WRITE_ENABLE",
    "DEPTH_COMPARE_OP",
    "STENCIL_TEST_ENABLE",
    "STENCIL_OP",
)
BLENDING = ("COLOR_BLEND_ENABLE_EXT", "COLOR_BLEND_EQUATION_EXT", "COLOR_WRITE_MASK_EXT")
SAMPLES = "RASTERIZATION_SAMPLES_EXT"
FORMATS = Rule(need=("FRAGMENT_OUTPUT",), never=("RENDER_PASS", "DISCARDS"))

#: By structure, then by member.
RULES: dict[str, dict[str, Rule]] = {
    "VkGraphicsPipelineCreateInfo": {
        "flags": NOT_HASHED,
        "stageCount": Rule(need=("STAGES",)),
        "pStages": Rule(need=("STAGES",)),
        # Libraries may have a mesh shader: then states of vertices are ignored.
        "pVertexInputState": Rule(need=("VERTEX_INPUT",), never=("MESH", "LINKED"), any=("VERTEX_INPUT_EXT",)),
        # Drivers look at states that are dynamic, too: the class of a dynamic topology decides what RADV compiles.
        # VUID-VkGraphicsPipelineCreateInfo-pInputAssemblyState-09032, -pTessellationState-09023, -pViewportState-09025,
        # -pRasterizationState-09040, -pMultisampleState-09027, -pDepthStencilState-09036, -pColorBlendState-09038.
        "pInputAssemblyState": Rule(
            need=("VERTEX_INPUT",),
            never=("MESH", "LINKED"),
            all=("PRIMITIVE_TOPOLOGY", "PRIMITIVE_RESTART_ENABLE"),
            valid=True,
        ),
        "pTessellationState": Rule(need=("TESSELLATION",), any=("PATCH_CONTROL_POINTS_EXT",), valid=True),
        "pViewportState": Rule(
            need=("PRE_RASTERIZATION",),
            never=("DISCARDS",),
            all=("VIEWPORT_WITH_COUNT", "SCISSOR_WITH_COUNT"),
            valid=True,
        ),
        "pRasterizationState": Rule(need=("PRE_RASTERIZATION",), all=ALL_RASTERIZATION, valid=True),
        "pMultisampleState": Rule(
            need=("RASTERIZES",), all=(SAMPLES, "SAMPLE_MASK_EXT", "ALPHA_TO_COVERAGE_ENABLE_EXT"), valid=True
        ),
        "pDepthStencilState": Rule(
            need=("FRAGMENT_SHADER", "DEPTH"), never=("DISCARDS",), all=ALL_DEPTH_STENCIL, valid=True
        ),
        "pColorBlendState": Rule(need=("COLORS",), any=("COLOR_BLEND_ADVANCED_EXT",), all=BLENDING, valid=True),
        "subpass": Rule(need=("RENDER_PASS",)),
        "basePipelineHandle": NEITHER,
        "basePipelineIndex": NEITHER,
    },
    "VkComputePipelineCreateInfo": {"flags": NOT_HASHED, "basePipelineHandle": NEITHER, "basePipelineIndex": NEITHER},
    "VkRayTracingPipelineCreateInfoKHR": {
        "flags": NOT_HASHED,
        "basePipelineHandle": NEITHER,
        "basePipelineIndex": NEITHER,
    },
    "VkPipelineCreateFlags2CreateInfo": {"flags": NOT_HASHED},
    "VkPipelineCreationFeedbackCreateInfo": {"pipelineStageCreationFeedbackCount": NOT_HASHED},
    "VkPipelineBinaryInfoKHR": dict.fromkeys(("binaryCount", "pPipelineBinaries"), NOT_HASHED),
    "VkDebugUtilsObjectNameInfoEXT": dict.fromkeys(("objectType", "objectHandle", "pObjectName"), NOT_HASHED),
    "VkShaderModuleCreateInfo": dict.fromkeys(("flags", "codeSize", "pCode"), NOT_HASHED),
    "VkPipelineShaderStageModuleIdentifierCreateInfoEXT": dict.fromkeys(("identifierSize", "pIdentifier"), NOT_HASHED),
    "VkShaderModuleValidationCacheCreateInfoEXT": {"validationCache": NOT_HASHED},
    "VkVertexInputBindingDescription": {"stride": dynamic("VERTEX_INPUT_BINDING_STRIDE")},
    "VkPipelineInputAssemblyStateCreateInfo": {
        "topology": dynamic("PRIMITIVE_TOPOLOGY"),
        "primitiveRestartEnable": dynamic("PRIMITIVE_RESTART_ENABLE"),
    },
    "VkPipelineTessellationDomainOriginStateCreateInfo": {"domainOrigin": dynamic("TESSELLATION_DOMAIN_ORIGIN_EXT")},
    "VkPipelineViewportStateCreateInfo": {
        "viewportCount": dynamic("VIEWPORT_WITH_COUNT"),
        "pViewports": dynamic("VIEWPORT", "VIEWPORT_WITH_COUNT"),
        "scissorCount": dynamic("SCISSOR_WITH_COUNT"),
        "pScissors": dynamic("SCISSOR", "SCISSOR_WITH_COUNT"),
    },
    "VkPipelineViewportDepthClipControlCreateInfoEXT": {
        "negativeOneToOne": dynamic("DEPTH_CLIP_NEGATIVE_ONE_TO_ONE_EXT")
    },
    "VkPipelineViewportDepthClampControlCreateInfoEXT": {
        "depthClampMode": dynamic("DEPTH_CLAMP_RANGE_EXT"),
        "pDepthClampRange": Rule(any=("DEPTH_CLAMP_RANGE_EXT",), when="depthClampMode", values=(1,)),
    },
    "VkPipelineViewportWScalingStateCreateInfoNV": {
        "viewportWScalingEnable": dynamic(*VIEWPORTS_NV),
        "pViewportWScalings": when("viewportWScalingEnable", any=VIEWPORTS_NV),
    },
    "VkPipelineViewportSwizzleStateCreateInfoNV": {"pViewportSwizzles": dynamic(*VIEWPORTS_NV)},
    "VkPipelineViewportExclusiveScissorStateCreateInfoNV": {"pExclusiveScissors": dynamic(*VIEWPORTS_NV)},
    "VkPipelineViewportShadingRateImageStateCreateInfoNV": {
        "shadingRateImageEnable": dynamic(*VIEWPORTS_NV),
        "pShadingRatePalettes": when("shadingRateImageEnable", any=VIEWPORTS_NV),
    },
    "VkPipelineViewportCoarseSampleOrderStateCreateInfoNV": {"pCustomSampleOrders": dynamic(*VIEWPORTS_NV)},
    "VkPipelineDiscardRectangleStateCreateInfoEXT": {
        "discardRectangleMode": dynamic(*RECTANGLES),
        "pDiscardRectangles": dynamic(*RECTANGLES),
    },
    "VkPipelineRasterizationStateCreateInfo": {
        "depthClampEnable": dynamic("DEPTH_CLAMP_ENABLE_EXT"),
        "rasterizerDiscardEnable": dynamic("RASTERIZER_DISCARD_ENABLE"),
        "polygonMode": dynamic("POLYGON_MODE_EXT"),
        "cullMode": dynamic("CULL_MODE"),
        "frontFace": dynamic("FRONT_FACE"),
        "depthBiasEnable": dynamic("DEPTH_BIAS_ENABLE"),
        **dict.fromkeys(
            ("depthBiasConstantFactor", "depthBiasClamp", "depthBiasSlopeFactor"),
            when("depthBiasEnable", "DEPTH_BIAS_ENABLE", any=("DEPTH_BIAS",)),
        ),
        "lineWidth": dynamic("LINE_WIDTH"),
    },
    "VkPipelineRasterizationConservativeStateCreateInfoEXT": {
        "conservativeRasterizationMode": dynamic("CONSERVATIVE_RASTERIZATION_MODE_EXT"),
        "extraPrimitiveOverestimationSize": dynamic("EXTRA_PRIMITIVE_OVERESTIMATION_SIZE_EXT"),
    },
    "VkPipelineRasterizationLineStateCreateInfo": {
        "lineRasterizationMode": dynamic("LINE_RASTERIZATION_MODE_EXT"),
        "stippledLineEnable": dynamic("LINE_STIPPLE_ENABLE_EXT"),
        "lineStippleFactor": when("stippledLineEnable", "LINE_STIPPLE_ENABLE_EXT", any=("LINE_STIPPLE",)),
        "lineStipplePattern": when("stippledLineEnable", "LINE_STIPPLE_ENABLE_EXT", any=("LINE_STIPPLE",)),
    },
    "VkPipelineRasterizationProvokingVertexStateCreateInfoEXT": {
        "provokingVertexMode": dynamic("PROVOKING_VERTEX_MODE_EXT")
    },
    "VkPipelineRasterizationDepthClipStateCreateInfoEXT": {"depthClipEnable": dynamic("DEPTH_CLIP_ENABLE_EXT")},
    "VkPipelineRasterizationStateStreamCreateInfoEXT": {"rasterizationStream": dynamic("RASTERIZATION_STREAM_EXT")},
    "VkPipelineMultisampleStateCreateInfo": {
        "rasterizationSamples": dynamic(SAMPLES),
        "minSampleShading": when("sampleShadingEnable"),
        "pSampleMask": dynamic("SAMPLE_MASK_EXT", SAMPLES),
        "alphaToCoverageEnable": dynamic("ALPHA_TO_COVERAGE_ENABLE_EXT"),
        "alphaToOneEnable": dynamic("ALPHA_TO_ONE_ENABLE_EXT"),
    },
    "VkPipelineSampleLocationsStateCreateInfoEXT": {
        "sampleLocationsEnable": dynamic("SAMPLE_LOCATIONS_ENABLE_EXT"),
        "sampleLocationsInfo": when(
            "sampleLocationsEnable", "SAMPLE_LOCATIONS_ENABLE_EXT", any=("SAMPLE_LOCATIONS_EXT",)
        ),
    },
    "VkPipelineCoverageModulationStateCreateInfoNV": {
        "coverageModulationMode": dynamic(*COVERAGE),
        "coverageModulationTableEnable": dynamic(*COVERAGE),
        "coverageModulationTableCount": when("coverageModulationTableEnable", any=COVERAGE),
        "pCoverageModulationTable": when("coverageModulationTableEnable", any=COVERAGE),
    },
    "VkPipelineCoverageToColorStateCreateInfoNV": {
        "coverageToColorEnable": dynamic(*COVERAGE),
        "coverageToColorLocation": when("coverageToColorEnable", any=COVERAGE),
    },
    "VkPipelineCoverageReductionStateCreateInfoNV": {"coverageReductionMode": dynamic(*COVERAGE)},
    "VkPipelineDepthStencilStateCreateInfo": {
        "depthTestEnable": dynamic("DEPTH_TEST_ENABLE"),
        "depthWriteEnable": when("depthTestEnable", "DEPTH_TEST_ENABLE", any=("DEPTH_WRITE_ENABLE",)),
        "depthCompareOp": when("depthTestEnable", "DEPTH_TEST_ENABLE", any=("DEPTH_COMPARE_OP",)),
        "depthBoundsTestEnable": dynamic("DEPTH_BOUNDS_TEST_ENABLE"),
        "stencilTestEnable": dynamic("STENCIL_TEST_ENABLE"),
        "front": when("stencilTestEnable", "STENCIL_TEST_ENABLE"),
        "back": when("stencilTestEnable", "STENCIL_TEST_ENABLE"),
        "minDepthBounds": when("depthBoundsTestEnable", "DEPTH_BOUNDS_TEST_ENABLE", any=("DEPTH_BOUNDS",)),
        "maxDepthBounds": when("depthBoundsTestEnable", "DEPTH_BOUNDS_TEST_ENABLE", any=("DEPTH_BOUNDS",)),
    },
    "VkStencilOpState": {
        **dict.fromkeys(("failOp", "passOp", "depthFailOp", "compareOp"), dynamic("STENCIL_OP")),
        "compareMask": dynamic("STENCIL_COMPARE_MASK"),
        "writeMask": dynamic("STENCIL_WRITE_MASK"),
        "reference": dynamic("STENCIL_REFERENCE"),
    },
    "VkPipelineColorBlendStateCreateInfo": {
        "logicOpEnable": dynamic("LOGIC_OP_ENABLE_EXT"),
        "logicOp": when("logicOpEnable", "LOGIC_OP_ENABLE_EXT", any=("LOGIC_OP_EXT",)),
        "pAttachments": Rule(any=("COLOR_BLEND_ADVANCED_EXT",), all=BLENDING),
        # Only some factors use them; programs that use none may leave them uninitialized.
        "blendConstants": NOT_HASHED,
    },
    "VkPipelineColorBlendAttachmentState": {
        "blendEnable": dynamic("COLOR_BLEND_ENABLE_EXT"),
        **dict.fromkeys(
            (
                "srcColorBlendFactor",
                "dstColorBlendFactor",
                "colorBlendOp",
                "srcAlphaBlendFactor",
                "dstAlphaBlendFactor",
                "alphaBlendOp",
            ),
            when("blendEnable", "COLOR_BLEND_ENABLE_EXT", any=("COLOR_BLEND_EQUATION_EXT",)),
        ),
        "colorWriteMask": dynamic("COLOR_WRITE_MASK_EXT"),
    },
    "VkPipelineColorBlendAdvancedStateCreateInfoEXT": dict.fromkeys(
        ("srcPremultiplied", "dstPremultiplied", "blendOverlap"), dynamic("COLOR_BLEND_ADVANCED_EXT")
    ),
    "VkPipelineColorWriteCreateInfoEXT": {"pColorWriteEnables": dynamic("COLOR_WRITE_ENABLE_EXT")},
    "VkPipelineFragmentShadingRateStateCreateInfoKHR": dict.fromkeys(
        ("fragmentSize", "combinerOps"), dynamic("FRAGMENT_SHADING_RATE_KHR")
    ),
    "VkPipelineRepresentativeFragmentTestStateCreateInfoNV": {
        "representativeFragmentTestEnable": dynamic("REPRESENTATIVE_FRAGMENT_TEST_ENABLE_NV")
    },
    "VkPipelineRenderingCreateInfo": {
        "viewMask": Rule(never=("RENDER_PASS",)),
        **dict.fromkeys(
            (
                "colorAttachmentCount",
                "pColorAttachmentFormats",
                "depthAttachmentFormat",
                "stencilAttachmentFormat",
            ),
            FORMATS,
        ),
    },
    "VkAttachmentSampleCountInfoAMD": dict.fromkeys(
        ("colorAttachmentCount", "pColorAttachmentSamples", "depthStencilAttachmentSamples"), FORMATS
    ),
    "VkRenderingAttachmentLocationInfo": dict.fromkeys(("colorAttachmentCount", "pColorAttachmentLocations"), FORMATS),
    "VkRenderingInputAttachmentIndexInfo": dict.fromkeys(
        (
            "colorAttachmentCount",
            "pColorAttachmentInputIndices",
            "pDepthInputAttachmentIndex",
            "pStencilInputAttachmentIndex",
        ),
        Rule(need=("FRAGMENT_SHADER",), never=("RENDER_PASS", "DISCARDS")),
    ),
    "VkCustomResolveCreateInfoEXT": {"pColorAttachmentFormats": FORMATS},
    "VkSamplerCreateInfo": {
        "maxAnisotropy": when("anisotropyEnable"),
        "compareOp": when("compareEnable"),
    },
    "VkDeviceCreateInfo": {"ppEnabledLayerNames": Rule()},
    "VkDescriptorSetLayoutBinding": {"pImmutableSamplers": Rule(when="descriptorType", values=(0, 1))},
}

#: What a fingerprint is made of: cheap to read, and enough to tell most pipelines apart. Members of structures that are
#: missing here do not count, unless they are plain data. A rule is a further condition. None: all members count.
STAGE_MEMBERS = ("stage", "module", "pName", "pSpecializationInfo")
WITHOUT_STAGES = Rule(need=("NO_STAGES",), never=("LINKED",))
ALWAYS = Rule()
QUICK: dict[str, dict[str, Rule] | None] = {
    "VkGraphicsPipelineCreateInfo": {
        "pStages": ALWAYS,
        "pVertexInputState": WITHOUT_STAGES,
        "pInputAssemblyState": Rule(never=("LINKED",)),
        "pMultisampleState": Rule(never=("LINKED",)),
        "pColorBlendState": WITHOUT_STAGES,
    },
    "VkComputePipelineCreateInfo": {"stage": ALWAYS},
    "VkRayTracingPipelineCreateInfoKHR": dict.fromkeys(("pStages", "groupCount", "pLibraryInfo"), ALWAYS),
    "VkPipelineShaderStageCreateInfo": dict.fromkeys(STAGE_MEMBERS, ALWAYS),
    "VkSpecializationInfo": {"pData": ALWAYS},
    "VkPipelineLibraryCreateInfoKHR": {"pLibraries": ALWAYS},
    "VkPipelineVertexInputStateCreateInfo": dict.fromkeys(
        ("pVertexBindingDescriptions", "pVertexAttributeDescriptions"), ALWAYS
    ),
    "VkVertexInputBindingDescription": None,
    "VkPipelineColorBlendStateCreateInfo": {"pAttachments": ALWAYS},
    "VkPipelineColorBlendAttachmentState": None,
    "VkPipelineInputAssemblyStateCreateInfo": {"topology": ALWAYS},
    "VkPipelineMultisampleStateCreateInfo": {"rasterizationSamples": ALWAYS},
    "VkPipelineRenderingCreateInfo": dict.fromkeys(
        ("pColorAttachmentFormats", "depthAttachmentFormat", "stencilAttachmentFormat"), ALWAYS
    ),
    "VkShaderDescriptorSetAndBindingMappingInfoEXT": None,
    "VkDescriptorSetAndBindingMappingEXT": None,
    "VkDescriptorMappingSourceConstantOffsetEXT": None,
    "VkDescriptorMappingSourcePushIndexEXT": None,
    "VkDescriptorMappingSourceIndirectIndexEXT": None,
    "VkDescriptorMappingSourceIndirectIndexArrayEXT": None,
    "VkDescriptorMappingSourceShaderRecordIndexEXT": None,
}
