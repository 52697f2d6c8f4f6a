/* d3d12.c - a Windows program that creates pipelines with Direct3D 12, off screen
 *
 *   d3d12.exe COUNT
 *
 * COUNT compute pipelines and COUNT graphics pipelines, each with a shader of its own. It records a draw with each of the
 * latter, because some implementations create the Vulkan pipeline then. Nothing is executed. It prints "ready" and returns 0.
 * Without a device it says so and exits with 2. */
#define COBJMACROS
#define INITGUID
#include <windows.h>

#include <d3d12.h>

#include "d3d.h"

static ID3D12Device *device;
static ID3D12RootSignature *signature;
static ID3D12GraphicsCommandList *list;

static D3D12_SHADER_BYTECODE code_of(const char *format, int number, const char *target)
{
    ID3D10Blob *code = compile(format, number, target);
    return (D3D12_SHADER_BYTECODE){ID3D10Blob_GetBufferPointer(code), ID3D10Blob_GetBufferSize(code)};
}

static void make_signature(void)
{
    ID3DBlob *code;
    D3D12_ROOT_SIGNATURE_DESC info = {.Flags = D3D12_ROOT_SIGNATURE_FLAG_ALLOW_INPUT_ASSEMBLER_INPUT_LAYOUT};
    check("D3D12SerializeRootSignature", D3D12SerializeRootSignature(&info, D3D_ROOT_SIGNATURE_VERSION_1, &code, NULL));
    check("CreateRootSignature",
          ID3D12Device_CreateRootSignature(device, 0, ID3D10Blob_GetBufferPointer(code), ID3D10Blob_GetBufferSize(code),
                                           &IID_ID3D12RootSignature, (void **)&signature));
}

static void make_target(void)
{
    ID3D12Resource *texture;
    ID3D12DescriptorHeap *heap;
    D3D12_HEAP_PROPERTIES place = {.Type = D3D12_HEAP_TYPE_DEFAULT};
    D3D12_RESOURCE_DESC info = {.Dimension = D3D12_RESOURCE_DIMENSION_TEXTURE2D,
                                .Width = 64,
                                .Height = 64,
                                .DepthOrArraySize = 1,
                                .MipLevels = 1,
                                .Format = DXGI_FORMAT_R8G8B8A8_UNORM,
                                .SampleDesc = {.Count = 1},
                                .Flags = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET};
    D3D12_DESCRIPTOR_HEAP_DESC one = {.Type = D3D12_DESCRIPTOR_HEAP_TYPE_RTV, .NumDescriptors = 1};
    D3D12_VIEWPORT viewport = {.Width = 64, .Height = 64, .MaxDepth = 1};
    D3D12_CPU_DESCRIPTOR_HANDLE view;
    D3D12_RECT scissor = {.right = 64, .bottom = 64};
    check("CreateCommittedResource", ID3D12Device_CreateCommittedResource(device, &place, D3D12_HEAP_FLAG_NONE, &info,
                                                                          D3D12_RESOURCE_STATE_RENDER_TARGET, NULL,
                                                                          &IID_ID3D12Resource, (void **)&texture));
    check("CreateDescriptorHeap",
          ID3D12Device_CreateDescriptorHeap(device, &one, &IID_ID3D12DescriptorHeap, (void **)&heap));
    heap->lpVtbl->GetCPUDescriptorHandleForHeapStart(heap, &view); /* mingw has no macro for it */
    ID3D12Device_CreateRenderTargetView(device, texture, NULL, view);
    ID3D12GraphicsCommandList_OMSetRenderTargets(list, 1, &view, FALSE, NULL);
    ID3D12GraphicsCommandList_RSSetViewports(list, 1, &viewport);
    ID3D12GraphicsCommandList_RSSetScissorRects(list, 1, &scissor);
    ID3D12GraphicsCommandList_IASetPrimitiveTopology(list, D3D_PRIMITIVE_TOPOLOGY_TRIANGLELIST);
    ID3D12GraphicsCommandList_SetGraphicsRootSignature(list, signature);
}

static void compute(int number)
{
    ID3D12PipelineState *pipeline;
    D3D12_COMPUTE_PIPELINE_STATE_DESC info = {.pRootSignature = signature};
    info.CS = code_of("[numthreads(%d, 1, 1)] void main() {}", number + 1, "cs_5_0"); /* Wine 8 compiles no stores */
    check("CreateComputePipelineState",
          ID3D12Device_CreateComputePipelineState(device, &info, &IID_ID3D12PipelineState, (void **)&pipeline));
}

static void draw(int number)
{
    ID3D12PipelineState *pipeline;
    D3D12_INPUT_ELEMENT_DESC element = {.SemanticName = "POSITION", .Format = DXGI_FORMAT_R32G32B32A32_FLOAT};
    D3D12_GRAPHICS_PIPELINE_STATE_DESC info = {
        .pRootSignature = signature,
        .SampleMask = ~0u,
        .BlendState = {.RenderTarget = {{.RenderTargetWriteMask = D3D12_COLOR_WRITE_ENABLE_ALL}}},
        .RasterizerState = {.FillMode = D3D12_FILL_MODE_SOLID, .CullMode = D3D12_CULL_MODE_NONE},
        .InputLayout = {&element, 1},
        .PrimitiveTopologyType = D3D12_PRIMITIVE_TOPOLOGY_TYPE_TRIANGLE,
        .NumRenderTargets = 1,
        .RTVFormats = {DXGI_FORMAT_R8G8B8A8_UNORM},
        .SampleDesc = {.Count = 1}};
    info.VS = code_of("float4 main(float4 at : POSITION) : SV_Position { return at * %d.0; }", 1, "vs_5_0");
    info.PS =
        code_of("float4 main(float4 at : SV_Position) : SV_Target { return float4(at.x * %d.0, at.y, 0.5, 1.0); }",
                number + 3, "ps_5_0");
    check("CreateGraphicsPipelineState",
          ID3D12Device_CreateGraphicsPipelineState(device, &info, &IID_ID3D12PipelineState, (void **)&pipeline));
    ID3D12GraphicsCommandList_SetPipelineState(list, pipeline);
    ID3D12GraphicsCommandList_DrawInstanced(list, 3, 1, 0, 0);
}

int main(int argc, char **argv)
{
    ID3D12CommandAllocator *allocator;
    check("D3D12CreateDevice", D3D12CreateDevice(NULL, D3D_FEATURE_LEVEL_11_0, &IID_ID3D12Device, (void **)&device));
    check("CreateCommandAllocator",
          ID3D12Device_CreateCommandAllocator(device, D3D12_COMMAND_LIST_TYPE_DIRECT, &IID_ID3D12CommandAllocator,
                                              (void **)&allocator));
    check("CreateCommandList", ID3D12Device_CreateCommandList(device, 0, D3D12_COMMAND_LIST_TYPE_DIRECT, allocator,
                                                              NULL, &IID_ID3D12GraphicsCommandList, (void **)&list));
    make_signature();
    make_target();
    for (int i = 0, count = argc > 1 ? atoi(argv[1]) : 1; i < count; i++) {
        compute(i);
        draw(i);
    }
    check("Close", ID3D12GraphicsCommandList_Close(list));
    printf("ready\n");
    fflush(stdout);
    ID3D12Device_Release(device);
    return 0;
}
